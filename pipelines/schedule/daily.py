"""The run that a timer starts: its date, its log, and an alert when it could not send one itself."""

import datetime
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from components.alerts import Event, send
from components.processes.stopping import Stopped, StopSignals
from pipelines.console import say
from pipelines.local.child_run import CHILD_GRACE_S, run_child
from pipelines.local.result.summary import SUMMARY_FILE
from pipelines.times import date_of
from schemas.contracts.exit_codes import WELL_ENDED, ExitCode, as_exit_code
from schemas.files import tail
from schemas.spec import Spec
from schemas.spec.data import DayLogs

MAX_LOGS = 30
"""Kept of a ranker; one has a few lines, and one more every half minute of a run."""
_TAIL_LINES = 30
_OUTCOMES: dict[int, str] = {
    ExitCode.DONE: "blessed",
    ExitCode.FAILED: "failed",
    ExitCode.MISTAKE: "was given something wrong",
    ExitCode.REJECTED: "refused by a gate",
    ExitCode.ROOT_IN_USE: "not begun, as another run holds the root",
    ExitCode.INTERRUPTED: "stopped",
    ExitCode.TERMINATED: "stopped",
}

RunChild = Callable[[list[str], Path, StopSignals], int]
"""Runs `sangam` with arguments, its output into a file, and returns the exit code."""


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
        """Of this ranker's logs."""
        return self.root / "schedule" / self.spec.name


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
    could not tell by itself, because it did not begin or was killed, is told from here. The log's last line says how
    the run ended; a log without it belongs to a run that is still going, or was killed together with this process.

    Args:
        daily: what to run.
        now: for the log's name.
        console: gets one line, or the end of the log of a run that did not end well.
        run: runs the child.
    """
    daily.folder.mkdir(parents=True, exist_ok=True)
    log = daily.folder / f"{now:%Y%m%dT%H%M%S}-{os.getpid()}-{daily.date or 'splits'}.log"
    runs = daily.root / "runs"
    known = set(runs.glob("*"))
    with StopSignals(grace_s=2 * CHILD_GRACE_S) as stop:
        try:
            code = run(_arguments(daily), log, stop)
        except Stopped as stopped:
            code = stopped.exit_code
    code = as_exit_code(code)
    new = set(runs.glob("*")) - known
    is_told = code != ExitCode.ROOT_IN_USE and any((folder / SUMMARY_FILE).exists() for folder in new)
    say(f"{daily.spec.name} {daily.date or ''}: {outcome(code)}; log: {log}", console)
    if code not in WELL_ENDED:
        end = tail(log, _TAIL_LINES)
        say(end, console)
        if not is_told:
            _tell(daily, log, f"{outcome(code)}\n{end}", console)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{outcome(code)}\n")
    _prune(daily.folder)
    return code


def _arguments(daily: Daily) -> list[str]:
    date = ["--date", daily.date] if daily.date else []
    return ["run", str(daily.spec_path), "--data", str(daily.data), "--root", str(daily.root), *date]


def _tell(daily: Daily, log: Path, reason: str, console: Console) -> None:
    if daily.spec.alerts is None:
        return
    event = Event(kind="failed", pipeline=daily.spec.name, step="", date=daily.date, run=log.stem, reason=reason)
    problem = send(daily.spec.alerts, event, os.environ)
    if problem:
        say(problem, console)


def _prune(folder: Path) -> None:
    for log in sorted(folder.glob("*.log"))[:-MAX_LOGS]:
        log.unlink(missing_ok=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
