"""The runs of a root, newest first, and the one that a user means."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.local.lock import is_locked
from pipelines.local.noted import noted
from pipelines.local.result.summary import Summary
from pipelines.local.retention.rule import started_at
from pipelines.local.step_log import read_date
from schemas.contracts.root import SUMMARY_FILE, Root, RunFolder
from schemas.errors import UserError

LATEST = "latest"
State = Literal["succeeded", "refused", "failed", "stopped", "running", "killed", "unreadable"]
ALLOWED = "give ROOT/runs/RUN, ROOT/runs/latest, the beginning of a run's id, or the root for the latest run"


@dataclass(frozen=True)
class LocalRun:
    """A run on this machine.

    Attributes:
        folder: of the run.
        ranker: name; None: not known.
        state: `refused`: it succeeded, and a gate refused the model; `killed`: it left no summary, and is not running;
            `unreadable`: another version has written its summary.
        started: None: its id does not say.
        summary: None unless it has ended, and can be read.
    """

    folder: RunFolder
    ranker: str | None
    state: State
    started: datetime.datetime | None
    summary: Summary | None = None

    @property
    def id(self) -> str:
        """The id."""
        return self.folder.path.name

    @property
    def root(self) -> Root:
        """The root that it is in."""
        return Root(str(self.folder.path.parent.parent))

    @property
    def date(self) -> str:
        """YYYY-MM-DD; empty where there is none."""
        return (self.summary.date or "") if self.summary else read_date(self.folder)

    def seconds(self, now: datetime.datetime) -> float | None:
        """Returns how long it took, or has taken so far; None: not known."""
        if self.summary:
            return self.summary.total_seconds
        return (now - self.started).total_seconds() if self.state == "running" and self.started else None

    @property
    def mean_auc(self) -> float | None:
        """The mean AUC of its tasks; None without any."""
        aucs = [task.auc for task in self.summary.tasks.values() if task.auc is not None] if self.summary else []
        return sum(aucs) / len(aucs) if aucs else None

    def document(self, now: datetime.datetime) -> dict[str, Any]:
        """Returns the run as JSON for programs, with the keys of a run on Kubeflow where both have them."""
        summary, finished = self.summary, None
        if self.started and summary:
            finished = self.started + datetime.timedelta(seconds=summary.total_seconds)
        return {
            "id": self.id,
            "name": self.ranker,
            "date": self.date,
            "state": self.state,
            "started": _iso(self.started),
            "finished": _iso(finished),
            "seconds": self.seconds(now),
            "failed_step": summary.failed_step if summary else None,
            "error": summary.error if summary else None,
            "pushed": summary.pushed.version if summary and summary.pushed else None,
            "metrics": {name: task.metrics for name, task in summary.tasks.items()} if summary else {},
            "steps": [
                {"name": name, "state": step.state, "seconds": step.seconds}
                for name, step in (summary.steps.items() if summary else ())
            ],
            "path": str(self.folder.path),
        }


def read_runs(folder: Path, ranker: str | None = None, limit: int | None = None) -> list[LocalRun]:
    """Returns the runs of a root, newest first.

    Args:
        folder: the root.
        ranker: whose; None: everybody's.
        limit: at most so many.

    Raises:
        UserError: it is no root, or has no run of this ranker.
    """
    root = _root(folder)
    newest_first = _local(root)[::-1]
    if ranker is not None:
        own = [run for run in newest_first if noted(run).ranker == ranker]
        if not own:
            known = sorted({name for run in newest_first if (name := noted(run).ranker)})
            raise UserError(f"--name: has no run in {folder} (got {ranker}); there are: {', '.join(known) or 'none'}")
        newest_first = own
    return [_read(run, is_newest=place == 0) for place, run in enumerate(newest_first[:limit])]


def find_run(given: Path) -> LocalRun:
    """Returns the run that a user means; see `ALLOWED`.

    Raises:
        UserError: there is none, or more than one.
    """
    path = given.parent if given.name == SUMMARY_FILE else given
    if (path / "runs").is_dir():
        path = path / "runs" / LATEST
    if path.parent.name != "runs" and (path.parent / "runs").is_dir():
        path = path.parent / "runs" / path.name
    root = Root(str(path.parent.parent.resolve()))
    if path.parent.name != "runs" or not root.runs.is_dir():
        raise UserError(f"RUN: no such run (got {given}); {ALLOWED}")
    ids = [run.path.name for run in _local(root)]
    found = ids[-1:] if path.name == LATEST else [each for each in ids if each.startswith(path.name)]
    found = [path.name] if path.name in ids else found
    if len(found) != 1:
        some = ", ".join((found or ids)[-5:]) or "none"
        raise UserError(
            f"RUN: {'several begin so' if found else 'no such run'} (got {given}, there: {some}); {ALLOWED}"
        )
    return _read(root.run(found[0]), is_newest=found == ids[-1:])


def _root(folder: Path) -> Root:
    root = Root(str(folder.resolve()))
    if not root.runs.is_dir():
        what = "has no runs" if folder.is_dir() else "no such folder"
        raise UserError(f"ROOT: {what} (got {folder}); give the --root of `sangam run`, or a name with --host")
    return root


def _local(root: Root) -> list[RunFolder]:
    """Returns the runs on this machine, oldest first; those on Kubeflow have ids of another form."""
    found = [run for run in root.run_folders() if started_at(run.path.name)]
    return sorted(found, key=lambda run: run.path.name)


def _read(run: RunFolder, *, is_newest: bool) -> LocalRun:
    known, started = noted(run).ranker, started_at(run.path.name)
    try:
        summary = Summary.model_validate_json(run.summary.read_bytes())
    except FileNotFoundError:
        # Runs of a root are one at a time.
        is_running = is_newest and is_locked(run.path.parent.parent)
        return LocalRun(run, known, "running" if is_running else "killed", started)
    except ValueError:
        return LocalRun(run, known, "unreadable", started)
    state: State = "refused" if summary.status == "succeeded" and summary.blessed is False else summary.status
    return LocalRun(run, known, state, started, summary)


def _iso(moment: datetime.datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else None
