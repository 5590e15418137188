"""Writes, reads, lists and finds the records of a root.

An unreadable record does not affect the other runs: its run has the state `unreadable`.
"""

import contextlib
import datetime
import itertools
import json
import math
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from sangam.components.record.journal import read_journal
from sangam.components.record.kubeflow import all_steps, lives
from sangam.components.record.lock import is_locked
from sangam.components.record.run import RunRecord, Status, Step
from sangam.schemas.contracts.root import LATEST, SUMMARY_FILE, Root, RunFolder
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import link_whole, write_whole

State = Literal[Status, "running", "killed", "unreadable"]
ALLOWED = "give ROOT/runs/RUN, ROOT/runs/latest, the beginning of a run's id, or the root for the latest run"
_RUN_TIME = "%Y%m%dT%H%M%S"
_MAX_YEAR = 2999
_MAX_BYTES = 2**25
"""Maximum size of a record; most have about 100 kB."""
_RESERVED_FILE, _RESERVED_BYTES = ".reserved", 256 * 1024
_DAMAGE = (OSError, ValueError, RecursionError)


@dataclass(frozen=True)
class StoredRun:
    """A run in a root.

    Attributes:
        ranker: name; None: unknown.
        state: status of the record; else `running`, `killed`: it left no record, and is not running, or `unreadable`:
            its record cannot be read.
        started: time of the start; None: unknown.
        record: record; None if the run has not ended, or its record is unreadable.
        problem: why the record is unreadable; empty if it is readable.
    """

    folder: RunFolder
    ranker: str | None
    state: State
    started: datetime.datetime | None
    record: RunRecord | None = None
    problem: str = ""

    @property
    def id(self) -> str:
        """The id."""
        return self.folder.path.name

    @property
    def root(self) -> Root:
        """The root of the run."""
        return Root(str(self.folder.path.parent.parent))

    @property
    def date(self) -> str:
        """YYYY-MM-DD; empty where there is none."""
        return (self.record.date or "") if self.record else read_journal(self.folder).date

    @property
    def steps(self) -> Mapping[str, Step]:
        """Its steps so far, in order."""
        if self.record:
            return self.record.steps
        noted = read_journal(self.folder)
        return all_steps(noted.steps) if noted.heard_at is not None else noted.steps

    def seconds(self, now: datetime.datetime) -> float | None:
        """Returns its duration until its end or `now`; None: unknown."""
        if self.record:
            return self.record.total_seconds
        return (now - self.started).total_seconds() if self.state == "running" and self.started else None


def reserve(run_folder: Path) -> None:
    """Reserves disk space for the record: a run that fails on a full disk can then report it."""
    with (run_folder / _RESERVED_FILE).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _RESERVED_BYTES)


def link_latest(run: RunFolder) -> None:
    """Has `runs/latest` lead to a run. Mounted object stores have no links: there it is only a name for commands."""
    with contextlib.suppress(OSError):
        link_whole(run.path.with_name(LATEST), run.path.name)


def write_record(record: RunRecord) -> Path:
    """Writes a record into its run's folder, whole or not at all, and returns the file's path."""
    path = Path(record.path) / SUMMARY_FILE
    path.with_name(_RESERVED_FILE).unlink(missing_ok=True)
    write_whole(path, record.text())
    return path


def read_document(file: Path) -> dict[str, Any]:
    """Returns a JSON object of a run's folder.

    Raises:
        OSError: the file is missing, or is not a regular file.
        ValueError: it is not a JSON object, or has numbers that are not finite or are too large.
        RecursionError: it is nested too deeply.
    """
    # O_NONBLOCK: opening a pipe must not wait for a writer.
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no file")
        if status.st_size > _MAX_BYTES:
            raise ValueError(f"it has {status.st_size:,} bytes")
        content = opened.read()
    document = json.loads(content, parse_float=_finite, parse_int=_whole, parse_constant=_refuse)
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    if b"\\ud" in content:
        # Lone surrogates cannot be printed or sent.
        json.dumps(document, ensure_ascii=False).encode()
    return document


def read_run(run: RunFolder, clock: Callable[[], float] = time.time) -> StoredRun:
    """Reads a run; `clock`: seconds since 1970, of a run on Kubeflow that may have been lost."""
    started = started_at(run.path.name)
    try:
        record = RunRecord.model_validate(read_document(run.summary))
    except FileNotFoundError:
        if run.tasks.is_dir():
            return _on_kubeflow(run, clock())
        return StoredRun(run, _ranker(run), "running" if _is_running(run) else "killed", started)
    except _DAMAGE as error:
        return StoredRun(run, _ranker(run), "unreadable", started, problem=_problem(error))
    return stored(_at(run, record))


def _on_kubeflow(run: RunFolder, now: float) -> StoredRun:
    noted = read_journal(run)
    begun = min((step.started_at for step in noted.steps.values() if step.started_at is not None), default=None)
    started = datetime.datetime.fromtimestamp(begun, datetime.UTC) if begun is not None else None
    return StoredRun(run, noted.ranker or None, "running" if lives(noted, now) else "killed", started)


def stored(record: RunRecord) -> StoredRun:
    """Returns an ended run as `read_run` does."""
    run = RunFolder(Path(record.path))
    started = started_at(run.path.name)
    if started is None and record.started_at is not None:
        started = datetime.datetime.fromtimestamp(record.started_at, datetime.UTC)
    return StoredRun(run, record.name, record.status, started, record)


def _at(run: RunFolder, record: RunRecord) -> RunRecord:
    """Returns a record with paths in its present root: a root may be mounted elsewhere, as in pods."""
    if record.path == str(run.path):
        return record
    pushed, root = record.pushed, Path(record.path).parent.parent
    if pushed and Path(pushed.path).is_relative_to(root):
        place = run.path.parent.parent / Path(pushed.path).relative_to(root)
        pushed = pushed.model_copy(update={"path": str(place)})
    return record.model_copy(update={"run": run.path.name, "path": str(run.path), "pushed": pushed})


def all_runs(root: Root) -> list[StoredRun]:
    """Returns the runs of a root, oldest first: those of this machine and those on Kubeflow."""
    return [read_run(run) for run in _oldest_first(root)]


def read_runs(folder: Path, ranker: str | None = None, limit: int | None = None) -> list[StoredRun]:
    """Returns the runs of a root, newest first.

    Args:
        folder: folder of the root.
        ranker: name of the ranker; None: all rankers.
        limit: maximum number of runs; None: all.

    Raises:
        UserError: the folder is not a root, or has no run of this ranker.
    """
    root = Root(str(folder.resolve()))
    if not root.runs.is_dir():
        what = "has no runs" if folder.is_dir() else "no such folder"
        raise UserError(f"ROOT: {what} (got {folder}); give the --root of `sangam run`, or a name with --host")
    if ranker is None:
        return [read_run(run) for run in _oldest_first(root)[::-1][:limit]]
    newest_first = all_runs(root)[::-1]
    own = [run for run in newest_first if run.ranker == ranker]
    if not own:
        known = sorted({run.ranker for run in newest_first if run.ranker})
        raise UserError(f"--name: has no run in {folder} (got {ranker}); there are: {', '.join(known) or 'none'}")
    return own[:limit]


def find_run(given: Path) -> StoredRun:
    """Returns the run that a user specifies; see `ALLOWED`.

    Raises:
        UserError: no run matches, or more than one.
    """
    # Not resolved: `latest` is a link.
    path = Path(os.path.abspath(given))
    path = path.parent if path.name == SUMMARY_FILE else path
    if (path / "runs").is_dir():
        path = path / "runs" / LATEST
    if path.parent.name != "runs" and (path.parent / "runs").is_dir():
        path = path.parent / "runs" / path.name
    root = Root(str(path.parent.parent.resolve()))
    if path.parent.name != "runs" or not root.runs.is_dir():
        raise UserError(f"RUN: no such run (got {given}); {ALLOWED}")
    ids = [run.path.name for run in _oldest_first(root)]
    found = ids[-1:] if path.name == LATEST else [each for each in ids if each.startswith(path.name)]
    found = [path.name] if path.name in ids else found
    if len(found) != 1:
        some = ", ".join((found or ids)[-5:]) or "none"
        raise UserError(
            f"RUN: {'several begin so' if found else 'no such run'} (got {given}, there: {some}); {ALLOWED}"
        )
    return read_run(root.run(found[0]))


def first_run(root: Root, ranker: str) -> StoredRun | None:
    """Returns a ranker's oldest run in a root; None without one."""
    return next((run for run in map(read_run, _oldest_first(root)) if run.ranker == ranker), None)


def pushed_before(run: StoredRun) -> StoredRun | None:
    """Returns the ranker's newest run that pushed a model before a run; without one, the newest that ended."""
    ended = None
    before = itertools.takewhile(lambda other: other.path.name != run.id, _oldest_first(run.root))
    for folder in reversed(list(before)):
        other = read_run(folder)
        if other.record and other.ranker == run.ranker:
            if other.record.pushed:
                return other
            ended = ended or other
    return ended


def runs_before(record: RunRecord) -> list[StoredRun]:
    """Returns the ranker's runs in the same root before it, oldest first."""
    own = stored(record)
    before = itertools.takewhile(lambda run: run.id != own.id, all_runs(own.root))
    return [run for run in before if run.record and run.ranker == record.name]


def started_at(run: str) -> datetime.datetime | None:
    """Returns when a run on this machine began, from its id; None for an id of another form."""
    try:
        time = datetime.datetime.strptime(run[:15], _RUN_TIME).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
    return time if time.year <= _MAX_YEAR else None


def _oldest_first(root: Root) -> list[RunFolder]:
    """Returns the folders that have a run's id, a record, or steps on Kubeflow, oldest first."""

    def when(run: RunFolder) -> tuple[float, str]:
        started = started_at(run.path.name) or read_run(run).started
        return started.timestamp() if started else 0.0, run.path.name

    def is_run(run: RunFolder) -> bool:
        return bool(started_at(run.path.name)) or os.path.lexists(run.summary) or run.tasks.is_dir()

    return sorted(filter(is_run, root.run_folders()), key=when)


def _is_running(run: RunFolder) -> bool:
    """Returns whether a run without a record is running: the newest one on this machine, while the root is locked."""
    others = run.path.parent.glob("*")
    newest = max((path.name for path in others if started_at(path.name)), default="")
    return run.path.name == newest and is_locked(run.path.parent.parent)


def _ranker(run: RunFolder) -> str | None:
    """Returns the name in a run's spec; None without a spec."""
    with contextlib.suppress(*_DAMAGE):
        name = read_document(run.spec).get("name")
        return name if isinstance(name, str) else None
    return None


def _problem(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split()[:30])


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _whole(text: str) -> int:
    return int(text) if len(text) < 20 else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"a number is out of range (got {text[:20]})")
