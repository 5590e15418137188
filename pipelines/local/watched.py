"""A run in a child process, supervised by a parent that stays responsive.

Libraries may block a process for seconds (TensorFlow during its import, Beam during its work), and the kernel may kill
it for its memory. The process that the user started loads neither: it stops all others in time, and writes the record
if they could not.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console

from sangam.components.processes.stopping import Stopped, kill_descendants
from sangam.components.record.journal import Journal, Noted
from sangam.components.record.run import RunRecord
from sangam.components.record.store import write_record
from sangam.pipelines.local.request import RunRequest
from sangam.pipelines.local.result.outcome import RunEnd, summarize
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.host.cgroup import OomWatch, OutOfMemory
from sangam.schemas.host.parent_process import adopt_orphans, end_with_parent

STOP_S = 1.0
"""Seconds from the first signal until all remaining processes are killed; the next run cleans up."""
_POLL_S = 0.05
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Watch:
    """Forks this process, forwards signals to the child, and kills all descendants if the child does not stop in time.

    Attributes:
        is_front: whether this process is the parent.
        signum: first signal received.
    """

    def __init__(self, stop_s: float):
        self._stop_s = stop_s
        self._asked_at: float | None = None
        self.signum: int | None = None
        # Blocked until both processes have their handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self._child = os.fork()
        self.is_front = self._child != 0
        for signum in _SIGNALS:
            # Never restored: a second Ctrl-C must not cut off the summary.
            signal.signal(signum, self._handle if self.is_front else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        if self.signum is None and self._child:
            self.signum, self._asked_at = signum, time.monotonic()
            os.kill(self._child, signum)

    def wait(self, console: Console) -> int:
        """Returns the exit code of the child, negative if a signal ended it."""
        told = False
        while True:
            # WNOWAIT: the child's id stays valid until it is reaped.
            if os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                child, self._child = self._child, 0
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if self._asked_at is not None and not told:
                told = True
                console.print("stopping", highlight=False)
            if self._asked_at is not None and time.monotonic() - self._asked_at > self._stop_s:
                kill_descendants()
            time.sleep(_POLL_S)


@dataclass(frozen=True)
class InterruptedRun:
    """A run that was killed or stopped, with the summary written by the parent.

    Attributes:
        exit_code: exit code of the command.
        record: written record; None if the run had no folder yet.
        path: path of the summary's file.
        log: most relevant log about the end.
    """

    exit_code: int
    record: RunRecord | None
    path: Path
    log: Path


def watched(
    request: RunRequest, console: Console, work: Callable[[Journal], int], *, stop_s: float = STOP_S
) -> int | InterruptedRun:
    """Runs the work in a child process.

    Like a fork, returns in both processes: in the child with the work's exit code.

    Args:
        request: request of the run.
        console: console for the message on a stop.
        work: the run, which writes its own summary unless it is killed.
        stop_s: seconds from a signal until the work is killed.

    Returns:
        The work's exit code, or the interrupted run whose summary was written here.
    """
    journal, started, front, oom_watch = Journal(), time.monotonic(), os.getpid(), OomWatch()
    watch = _Watch(stop_s)
    if not watch.is_front:
        end_with_parent(front)
        return work(journal)
    adopt_orphans()
    code = watch.wait(console)
    # No process of the run may survive: none would end it later.
    kill_descendants()
    noted = journal.read()
    stopped = Stopped(watch.signum) if watch.signum is not None else None
    folder = noted.folder
    if folder is None:
        return InterruptedRun(stopped.exit_code, None, Path(), Path()) if stopped else code
    if RunFolder(folder).summary.exists():
        return stopped.exit_code if stopped and code < 0 else code
    seconds = time.monotonic() - started
    if stopped:
        ending = RunEnd("stopped", str(stopped), seconds)
    else:
        ending = RunEnd("failed", _how(code, noted, oom_watch.out_of_memory()), seconds)
    steps = noted.ended("stopped" if stopped else "failed", time.time())
    exit_code = stopped.exit_code if stopped else ExitCode.FAILED
    record = summarize(request, folder, steps, ending, noted.commit).model_copy(update={"exit_code": exit_code})
    log = RunFolder(folder).logs / f"{noted.running.name if noted.running else 'run'}.log"
    path = write_record(record)
    if not stopped:
        from sangam.pipelines.local.result.page import write_page

        write_page(record, steps, log)
    return InterruptedRun(exit_code, record, path, log)


def _how(code: int, noted: Noted, out_of_memory: OutOfMemory | None) -> str:
    where = noted.running.name if noted.running else "run"
    if code >= 0:
        return f"{where}: the run's process ended without an error message (got exit code {code}); see its log"
    how = out_of_memory if code == -signal.SIGKILL else None
    return (
        f"{where}: the run's process {how or f'was killed by {signal.Signals(-code).name}'}; the same command resumes"
    )
