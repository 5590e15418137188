"""The ending of a step's process: an exit code and a sentence."""

import signal
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sangam.schemas.contracts.exit_codes import ExitCode, of_signal
from sangam.schemas.host.cgroup import OutOfMemory


class Report(BaseModel):
    """The error of the step's process.

    Attributes:
        is_mistake: whether the user must act, as a retry would fail again.
        text: text of the error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_mistake: bool
    text: str


@dataclass(frozen=True)
class Ending:
    """The end of a step.

    Attributes:
        code: exit code of the entry point.
        reason: reason of the failure; empty after a success.
        is_mistake: whether the user must act, as a retry would fail again.
        is_stop: whether a signal ended this process: the pod is going away.
    """

    code: int = ExitCode.DONE
    reason: str = ""
    is_mistake: bool = False
    is_stop: bool = False


def ending_of(code: int, report: Report | None, step: str, out_of_memory: OutOfMemory | None) -> Ending:
    """Returns the ending.

    Args:
        code: exit code of the process, negative for a signal.
        report: report of the process; None without one.
        step: name of the step.
        out_of_memory: kills by the kernel meanwhile; None if there were none, or they are unknown.
    """
    if code == ExitCode.DONE:
        return Ending()
    if report:
        return Ending(ExitCode.MISTAKE if report.is_mistake else ExitCode.FAILED, report.text, report.is_mistake)
    if code == -signal.SIGKILL:
        how = f"{out_of_memory};" if out_of_memory else "was killed (SIGKILL); if memory ran out,"
        return Ending(of_signal(signal.SIGKILL), f"{step}: {how} raise cluster.steps.{step}.memory")
    if code < 0:
        return Ending(of_signal(-code), f"{step}: was ended by {signal.Signals(-code).name}")
    return Ending(ExitCode.FAILED, f"{step}: ended with code {code}; its log is above")


def stopped(number: int, step: str) -> Ending:
    """Returns the ending of a step that was stopped by a signal."""
    name = signal.Signals(number).name
    reason = f"{step}: was stopped by {name}: it took too long, its pod was evicted, or the run ended"
    return Ending(of_signal(number), reason, is_stop=True)


def too_long(step: str, timeout_s: float) -> Ending:
    """Returns the ending of a try that was stopped at its time limit."""
    return Ending(ExitCode.FAILED, f"{step}: took longer than {timeout_s:g} s; raise cluster.steps.{step}.timeout_s")
