"""The run that a timer starts: its date, its log, and a word to somebody when it could not even begin."""

import datetime
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console

from components.alerts import Event, send
from pipelines.local.child_run import CHILD_GRACE_S, run_child
from pipelines.local.stopping import Stopped, StopSignals
from pipelines.runs import ROOT_IN_USE
from pipelines.schedule.declared import date_of
from pipelines.summary import SUMMARY_FILE
from schemas.spec import Spec
from schemas.spec.data import DayLogs

MAX_LOGS = 30
"""Kept of a schedule; one has a few lines, and one more every half minute of a run."""
LAST_RUN_FILE = "last.json"
_TAIL_LINES = 30
_OUTCOMES = {
    0: "blessed",
    1: "failed",
    2: "was given something wrong",
    3: "refused by a gate",
    ROOT_IN_USE: "not begun, as another run holds the root",
    130: "stopped",
    143: "stopped",
}

RunChild = Callable[[list[str], Path, StopSignals], int]
"""Runs `sangam` with arguments, its output into a file, and returns the exit code."""


class LastRun(BaseModel):
    """What became of the latest run of a schedule.

    Attributes:
        date: that it was for; None for logs without dates.
        started: when.
        pid: of the process that the timer started.
        exit_code: None while it goes on.
        log: its output.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str | None
    started: datetime.datetime
    pid: int
    exit_code: int | None
    log: str

    def __str__(self) -> str:
        what = f"{self.date or 'run'} of {self.started:%Y-%m-%d %H:%M} UTC"
        if self.exit_code is not None:
            return f"{what}: {outcome(self.exit_code)}"
        return f"{what}: {'goes on' if psutil.pid_exists(self.pid) else 'was killed'}"


@dataclass(frozen=True)
class Daily:
    """What to run.

    Attributes:
        spec_path: as the timer gives it.
        spec: read from there.
        data: folder of the logs.
        root: folder of everything that the run leaves.
        date: YYYY-MM-DD; None for logs without dates.
    """

    spec_path: Path
    spec: Spec
    data: Path
    root: Path
    date: str | None

    @property
    def folder(self) -> Path:
        """Of the logs of this schedule."""
        return folder_of(self.root, self.spec.name)


def folder_of(root: Path, name: str) -> Path:
    """Returns the folder of a schedule's logs."""
    return root / "schedule" / name


def outcome(code: int) -> str:
    """Returns an exit code in words."""
    if code > 128 and code not in _OUTCOMES:
        return f"killed by {_signal_name(code - 128)}"
    return _OUTCOMES.get(code, f"exit code {code}")


def due(spec_path: Path, spec: Spec, data: Path, root: Path, now: datetime.datetime) -> Daily:
    """Returns what a timer that fires now is to run: yesterday's date (UTC), or logs without dates."""
    date = date_of(now).isoformat() if isinstance(spec.data, DayLogs) else None
    return Daily(spec_path, spec, data, root, date)


def run_daily(daily: Daily, now: datetime.datetime, console: Console, run: RunChild = run_child) -> int:
    """Runs, and returns the exit code of `sangam run`; 128 and its number after a signal.

    The root's lock keeps two runs from meeting: the second ends with ROOT_IN_USE and says who holds it. What a run
    could not tell by itself, because it did not begin or was killed, is told from here.

    Args:
        daily: what to run.
        now: for the log's name.
        console: gets one line, or the end of the log of a run that did not end well.
        run: runs the child.
    """
    daily.folder.mkdir(parents=True, exist_ok=True)
    log = daily.folder / f"{now:%Y%m%dT%H%M%S}-{os.getpid()}-{daily.date or 'splits'}.log"
    last = LastRun(date=daily.date, started=now, pid=os.getpid(), exit_code=None, log=str(log))
    _write(daily.folder, last)
    runs = daily.root / "runs"
    known = set(runs.glob("*"))
    with StopSignals(grace_s=2 * CHILD_GRACE_S) as stop:
        try:
            code = run(_arguments(daily), log, stop)
        except Stopped as stopped:
            code = stopped.exit_code
    code = 128 - code if code < 0 else code
    is_told = code != ROOT_IN_USE and any((folder / SUMMARY_FILE).exists() for folder in set(runs.glob("*")) - known)
    _write(daily.folder, last.model_copy(update={"exit_code": code}))
    _prune(daily.folder)
    _say(console, f"{daily.spec.name} {daily.date or ''}: {outcome(code)}; log: {log}")
    if code not in (0, 3, 130, 143):
        tail = _tail(log)
        _say(console, tail)
        if not is_told:
            _tell(daily, log, f"{outcome(code)}\n{tail}", console)
    return code


def last_run(folder: Path) -> LastRun | None:
    """Returns the latest run of a schedule; None if there is none."""
    try:
        return LastRun.model_validate_json((folder / LAST_RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _arguments(daily: Daily) -> list[str]:
    date = ["--date", daily.date] if daily.date else []
    return ["run", str(daily.spec_path), "--data", str(daily.data), "--root", str(daily.root), *date]


def _tell(daily: Daily, log: Path, reason: str, console: Console) -> None:
    if daily.spec.alerts is None:
        return
    event = Event(kind="failed", pipeline=daily.spec.name, step="", date=daily.date, run=log.stem, reason=reason)
    problem = send(daily.spec.alerts, event, os.environ)
    if problem:
        _say(console, problem)


def _write(folder: Path, last: LastRun) -> None:
    fresh = folder / f".{LAST_RUN_FILE}.{os.getpid()}"
    fresh.write_text(last.model_dump_json(indent=2) + "\n", encoding="utf-8")
    fresh.replace(folder / LAST_RUN_FILE)


def _prune(folder: Path) -> None:
    for log in sorted(folder.glob("*.log"))[:-MAX_LOGS]:
        log.unlink(missing_ok=True)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-_TAIL_LINES:])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
