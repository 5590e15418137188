"""A run's work in a process of its own, watched by a light one that can always answer.

Libraries may hold a process for seconds (TensorFlow while it is imported, Beam while it works), and the kernel may kill
it for its memory. The process that the user has started does none of this: it stops all others in time, and leaves the
summary where they could not.
"""

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from components.processes.parent import adopt_orphans, end_with_parent
from components.processes.stopping import Stopped, kill_descendants
from pipelines.local.request import RunRequest
from pipelines.local.result.outcome import Ending, summarize
from pipelines.local.result.summary import SUMMARY_FILE, Summary, write_summary
from pipelines.local.steps import Artifact, Step
from schemas.contracts.exit_codes import ExitCode

STOP_S = 1.0
"""From the first signal to the moment when whatever has not ended by itself is killed; the next run tidies up."""
_POLL_S = 0.05
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Diary:
    """What a run's own process tells the one that watches, in a file that both have open.

    Attributes:
        run_folder: None until there is one.
        commit: of the code.
        steps: that have ended.
        current: the step that has begun and not ended, and when.
    """

    run_folder: Path | None = None
    commit: str | None = None
    steps: list[Step] = field(default_factory=list)
    current: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        # In memory, where no disk is full, and gone with the last process that has it.
        self._file = open(os.memfd_create("diary"), "r+b")  # noqa: SIM115

    def opened(self, run_folder: Path, commit: str | None = None) -> None:
        """Notes where the run is, and of which code."""
        self._note("opened", [str(run_folder), commit])

    def step_started(self, node: str) -> None:
        """Notes the step."""
        self._note("started", [node, time.time()])

    def step_ended(self, step: Step) -> None:
        """Notes how it went."""
        self._note("ended", dataclasses.asdict(step))

    def _note(self, what: str, it: object) -> None:
        os.write(self._file.fileno(), (json.dumps([what, it], default=str) + "\n").encode())

    def read(self) -> "Diary":
        """Takes what the other process has noted."""
        self._file.seek(0)
        for line in self._file.read().split(b"\n")[:-1]:
            self._take(*json.loads(line))
        return self

    def _take(self, what: str, it: Any) -> None:
        match what:
            case "opened":
                self.run_folder, self.commit = Path(it[0]), it[1]
            case "started":
                self.current = it[0], it[1]
            case "ended":
                self.current = None
                outputs = {key: Artifact(**artifact) for key, artifact in it.pop("outputs").items()}
                self.steps.append(Step(**it, outputs=outputs))

    def steps_until(self, now: float, ending: Ending) -> list[Step]:
        """Returns the steps, the one that was cut off included."""
        if self.current is None:
            return self.steps
        node, started = self.current
        return [*self.steps, Step(node, "stopped" if ending.status == "stopped" else "failed", now - started, 0)]


class _Watch:
    """Over a fork of this process: hands signals on to it, and ends everything when they are not obeyed.

    Attributes:
        is_front: this is the process that watches, not the fork.
        signum: of the first signal that has come.
    """

    def __init__(self, stop_s: float):
        self._stop_s = stop_s
        self._asked_at: float | None = None
        self.signum: int | None = None
        # Held back until both processes know what to do with them.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self._child = os.fork()
        self.is_front = self._child != 0
        for signum in _SIGNALS:
            # For good: nothing comes after a run, and an impatient second Ctrl-C must not cut off its summary.
            signal.signal(signum, self._handle if self.is_front else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        if self.signum is None and self._child:
            self.signum, self._asked_at = signum, time.monotonic()
            os.kill(self._child, signum)

    def wait(self, console: Console) -> int:
        """Returns the exit code of the process, negative when a signal has ended it."""
        told = False
        while True:
            # Its id is its own until it is waited for.
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
class CutOff:
    """A run that was ended from outside, its summary written.

    Attributes:
        exit_code: of the command.
        summary: what was written; None where there was no run yet.
        path: where.
        log: file that tells the most.
    """

    exit_code: int
    summary: Summary | None
    path: Path
    log: Path


def watched(
    request: RunRequest, console: Console, work: Callable[[Diary], int], *, stop_s: float = STOP_S
) -> int | CutOff:
    """Does the work in a process of its own.

    Returns twice, as a fork does: in the new process with the work's exit code.

    Args:
        request: of the run.
        console: says that the run is being stopped.
        work: the run; it leaves its summary, whichever way it ends.
        stop_s: from a signal to the moment when the work is killed.

    Returns:
        The work's exit code; what was left in its place where it was cut off.
    """
    diary, started, front = Diary(), time.monotonic(), os.getpid()
    watch = _Watch(stop_s)
    if not watch.is_front:
        end_with_parent(front)
        return work(diary)
    adopt_orphans()
    code = watch.wait(console)
    # Nothing of it may go on: without its process nobody would end it.
    kill_descendants()
    diary.read()
    stopped = Stopped(watch.signum) if watch.signum is not None else None
    folder = diary.run_folder
    if folder is None:
        return CutOff(stopped.exit_code, None, Path(), Path()) if stopped else code
    if (folder / SUMMARY_FILE).exists():
        return stopped.exit_code if stopped and code < 0 else code
    seconds = time.monotonic() - started
    ending = Ending("stopped", str(stopped), seconds) if stopped else Ending("failed", _how(code, diary), seconds)
    summary = summarize(request, folder, diary.steps_until(time.time(), ending), ending, diary.commit)
    log = folder / "logs" / f"{diary.current[0] if diary.current else 'run'}.log"
    return CutOff(stopped.exit_code if stopped else ExitCode.FAILED, summary, write_summary(summary), log)


def _how(code: int, diary: Diary) -> str:
    where = diary.current[0] if diary.current else "run"
    if code >= 0:
        return f"{where}: the run's process ended with code {code} and without a word; see its log"
    hint = "; so does Linux with who takes too much memory (see dmesg)" if code == -signal.SIGKILL else ""
    return f"{where}: the run's process was ended by {signal.Signals(-code).name}{hint}; the same command goes on"
