"""The records of a root: written, read, listed, and the one that a user means.

Whatever lies where a record should be, the other runs are read: a run that cannot be read says so.
"""

import contextlib
import datetime
import itertools
import json
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from components.record.journal import read_journal
from components.record.lock import is_locked
from components.record.run import RunRecord
from schemas.contracts.root import SUMMARY_FILE, Root, RunFolder
from schemas.errors import UserError
from schemas.host.files import write_whole

LATEST = "latest"
State = Literal["succeeded", "refused", "failed", "stopped", "running", "killed", "unreadable"]
ALLOWED = "give ROOT/runs/RUN, ROOT/runs/latest, the beginning of a run's id, or the root for the latest run"
_RUN_TIME = "%Y%m%dT%H%M%S"
_MAX_YEAR = 2999
_MAX_BYTES = 2**25
"""A record has some 100 kB."""
_RESERVED_FILE, _RESERVED_BYTES = ".reserved", 256 * 1024
_DAMAGE = (OSError, ValueError, RecursionError)


@dataclass(frozen=True)
class StoredRun:
    """A run as it lies in a root.

    Attributes:
        ranker: name; None: not known.
        state: `refused`: it succeeded, and a gate refused the model; `killed`: it left no record, and is not running;
            `unreadable`: its record cannot be read.
        started: None: not known.
        record: None unless it has ended, and can be read.
        problem: why it cannot be read; empty: it can.
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
        """The root that it is in."""
        return Root(str(self.folder.path.parent.parent))

    @property
    def date(self) -> str:
        """YYYY-MM-DD; empty where there is none."""
        return (self.record.date or "") if self.record else read_journal(self.folder).date

    def seconds(self, now: datetime.datetime) -> float | None:
        """Returns how long it took, or has taken so far; None: not known."""
        if self.record:
            return self.record.total_seconds
        return (now - self.started).total_seconds() if self.state == "running" and self.started else None


def reserve(run_folder: Path) -> None:
    """Reserves disk space for the record: a run that fails on a full disk must be able to report it."""
    with (run_folder / _RESERVED_FILE).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _RESERVED_BYTES)


def write_record(record: RunRecord) -> Path:
    """Writes a record into its run's folder, whole or not at all, and returns the file's path."""
    path = Path(record.path) / SUMMARY_FILE
    path.with_name(_RESERVED_FILE).unlink(missing_ok=True)
    write_whole(path, record.text())
    return path


def read_document(file: Path) -> dict[str, Any]:
    """Returns a JSON object of a run's folder.

    Raises:
        OSError: there is none, or something else in its place.
        ValueError: it is no such object, or has numbers that nobody can work with.
        RecursionError: it is nested too deeply.
    """
    # Not to wait for a writer, should it be a pipe.
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
        # Half a character can neither be printed nor sent.
        json.dumps(document, ensure_ascii=False).encode()
    return document


def read_run(run: RunFolder) -> StoredRun:
    """Reads a run."""
    started = started_at(run.path.name)
    try:
        record = RunRecord.model_validate(read_document(run.summary))
    except FileNotFoundError:
        return StoredRun(run, _ranker(run), "running" if _is_running(run) else "killed", started)
    except _DAMAGE as error:
        return StoredRun(run, _ranker(run), "unreadable", started, problem=_problem(error))
    return stored(_at(run, record))


def stored(record: RunRecord) -> StoredRun:
    """Returns a run that has ended as it is read."""
    run = RunFolder(Path(record.path))
    started = started_at(run.path.name)
    if started is None and record.started_at is not None:
        started = datetime.datetime.fromtimestamp(record.started_at, datetime.timezone.utc)
    state: State = "refused" if record.status == "succeeded" and record.blessed is False else record.status
    return StoredRun(run, record.name, state, started, record)


def _at(run: RunFolder, record: RunRecord) -> RunRecord:
    """Returns a record with the paths of where it lies now: a root may be mounted elsewhere, as that of pods is."""
    if record.path == str(run.path):
        return record
    pushed, root = record.pushed, Path(record.path).parent.parent
    if pushed and Path(pushed.path).is_relative_to(root):
        place = run.path.parent.parent / Path(pushed.path).relative_to(root)
        pushed = pushed.model_copy(update={"path": str(place)})
    return record.model_copy(update={"run": run.path.name, "path": str(run.path), "pushed": pushed})


def all_runs(root: Root) -> list[StoredRun]:
    """Returns the runs of a root, oldest first: those on this machine, and those on Kubeflow that have ended."""
    return [read_run(run) for run in _oldest_first(root)]


def read_runs(folder: Path, ranker: str | None = None, limit: int | None = None) -> list[StoredRun]:
    """Returns the runs of a root, newest first.

    Args:
        folder: the root.
        ranker: only its runs; None: everybody's.
        limit: at most so many.

    Raises:
        UserError: it is no root, or has no run of this ranker.
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
    ids = [run.path.name for run in _oldest_first(root)]
    found = ids[-1:] if path.name == LATEST else [each for each in ids if each.startswith(path.name)]
    found = [path.name] if path.name in ids else found
    if len(found) != 1:
        some = ", ".join((found or ids)[-5:]) or "none"
        raise UserError(
            f"RUN: {'several begin so' if found else 'no such run'} (got {given}, there: {some}); {ALLOWED}"
        )
    return read_run(root.run(found[0]))


def runs_before(record: RunRecord) -> list[StoredRun]:
    """Returns the ranker's runs in the same root before it, oldest first."""
    own = stored(record)
    before = itertools.takewhile(lambda run: run.id != own.id, all_runs(own.root))
    return [run for run in before if run.record and run.ranker == record.name]


def started_at(run: str) -> datetime.datetime | None:
    """Returns when a run on this machine began, from its id; None for an id of another form."""
    try:
        time = datetime.datetime.strptime(run[:15], _RUN_TIME).replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None
    return time if time.year <= _MAX_YEAR else None


def _oldest_first(root: Root) -> list[RunFolder]:
    """Returns what may be a run: its id says so, or it has a record."""

    def when(run: RunFolder) -> tuple[float, str]:
        started = started_at(run.path.name) or read_run(run).started
        return started.timestamp() if started else 0.0, run.path.name

    found = [run for run in root.run_folders() if started_at(run.path.name) or os.path.lexists(run.summary)]
    return sorted(found, key=when)


def _is_running(run: RunFolder) -> bool:
    """Returns whether a run without a record is under way: the newest one on this machine, while the root is locked."""
    others = run.path.parent.glob("*")
    newest = max((path.name for path in others if started_at(path.name)), default="")
    return run.path.name == newest and is_locked(run.path.parent.parent)


def _ranker(run: RunFolder) -> str | None:
    """Returns the name in a run's spec; None: there is none."""
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
