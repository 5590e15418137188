"""The run that a timer starts: its date, its log, and an alert if the run could not send one."""

import datetime
import os
import shlex
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sangam.components.alerts import Event, live_of, send, silence_of
from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.pipelines.console import say
from sangam.pipelines.local.child_run import CHILD_GRACE_S, run_child
from sangam.pipelines.times import date_of
from sangam.schemas.contracts.exit_codes import WELL_ENDED, ExitCode, as_exit_code
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import tail
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs

MAX_LOGS = 30
"""Number of logs kept per ranker; a log grows by two lines a minute."""
_TAIL_LINES = 30
_OUTCOMES: dict[int, str] = {
    ExitCode.DONE: "blessed",
    ExitCode.FAILED: "failed",
    ExitCode.MISTAKE: "failed: the spec, an option or the logs are wrong",
    ExitCode.REJECTED: "refused by a gate",
    ExitCode.ROOT_IN_USE: "not started, another run is using the root",
    ExitCode.INTERRUPTED: "stopped",
    ExitCode.TERMINATED: "stopped",
}

RunChild = Callable[[list[str], Path, StopSignals], int]
"""Runs `sangam` with arguments, writes its output to a file, and returns the exit code."""


@dataclass(frozen=True)
class Daily:
    """The run to start.

    Attributes:
        spec_path: path of the spec, from the timer.
        spec: parsed spec.
        data: folder of the logs, or its address.
        root: folder of all files that runs write.
        date: date of the run, YYYY-MM-DD; None for logs without dates.
    """

    spec_path: Path
    spec: Spec
    data: str
    root: Path
    date: str | None

    @property
    def folder(self) -> Path:
        """Folder of this ranker's scheduled logs."""
        return Root(str(self.root)).schedule(self.spec.name)


def outcome(code: int) -> str:
    """Returns the meaning of an exit code of `sangam run`."""
    if code > 128 and code not in _OUTCOMES:
        return f"killed by {_signal_name(code - 128)}"
    return _OUTCOMES.get(code, f"exit code {code}")


def due(spec_path: Path, spec: Spec, data: str | Path, root: Path, now: datetime.datetime) -> Daily:
    """Returns the run of a timer that fires now: of yesterday's date (UTC), or of no date for logs without dates."""
    date = date_of(now).isoformat() if isinstance(spec.logs, DayLogs) else None
    return Daily(spec_path, spec, str(data), root, date)


def run_daily(daily: Daily, now: datetime.datetime, console: Console, run: RunChild = run_child) -> int:
    """Runs `sangam run` and returns its exit code; after a signal 128 plus its number.

    The root's lock prevents two runs at once: the second ends with ROOT_IN_USE and names the process that holds it.
    This process sends the alert of a run that did not start or was killed. The last line of the log has the result;
    without it, the run is still in progress or was killed together with this process.

    Args:
        daily: the run.
        now: present time, which names the log.
        console: gets one line, and the end of the log if the run failed.
        run: runs the child process.
    """
    daily.folder.mkdir(parents=True, exist_ok=True)
    log = daily.folder / f"{now:%Y%m%dT%H%M%S}-{os.getpid()}-{daily.date or 'splits'}.log"
    root = Root(str(daily.root))
    known = root.run_folders()
    with StopSignals(grace_s=2 * CHILD_GRACE_S) as stop:
        try:
            code = run(_arguments(daily), log, stop)
        except Stopped as stopped:
            code = stopped.exit_code
    code = as_exit_code(code)
    new = root.run_folders() - known
    is_alerted = code != ExitCode.ROOT_IN_USE and any(run.summary.exists() for run in new)
    say(f"{daily.spec.name} {daily.date or ''}: {outcome(code)}; log: {log}", console)
    if code not in WELL_ENDED:
        end = tail(log, _TAIL_LINES)
        say(end, console)
        if not is_alerted:
            _alert(daily, log, f"{outcome(code)}\n{end}", now, console)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{outcome(code)}\n")
    _prune(daily.folder)
    return code


def _arguments(daily: Daily) -> list[str]:
    date = ["--date", daily.date] if daily.date else []
    return ["run", str(daily.spec_path), "--data", daily.data, "--root", str(daily.root), *date]


def _alert(daily: Daily, log: Path, reason: str, now: datetime.datetime, console: Console) -> None:
    """Sends the alerts of a run that could not: that it failed, and that nothing was pushed for days."""
    alerts, root, name = daily.spec.alerts, Root(str(daily.root.resolve())), daily.spec.name
    if alerts is None:
        return
    failed = Event(
        kind="failed",
        pipeline=name,
        step="",
        date=daily.date,
        run=log.stem,
        reason=reason,
        root=str(root.path),
        command=shlex.join(["sangam", *_arguments(daily)]),
        **live_of(root, name),
    )
    try:
        silence = silence_of(alerts, root, name, now, log.stem)
    except UserError as error:
        silence = None
        say(str(error), console)
    for event in filter(None, (failed, silence)):
        if problem := send(alerts, event, os.environ):
            say(problem, console)


def _prune(folder: Path) -> None:
    for log in sorted(folder.glob("*.log"))[:-MAX_LOGS]:
        log.unlink(missing_ok=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
