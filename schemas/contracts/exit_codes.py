"""Exit codes of every process: the command line, the steps on Kubeflow, the trainer. docs/daily.md has the table."""

import signal
from enum import IntEnum


class ExitCode(IntEnum):
    """The meaning of an exit code; each has one.

    Attributes:
        DONE: success; of a run: the model is blessed.
        FAILED: trying again may help.
        MISTAKE: the input is wrong; trying again changes nothing.
        REJECTED: the run worked, and a gate refused the model.
        ROOT_IN_USE: nothing was started, because another process holds the folder; or it was lost to another one.
        UNSCHEDULED: no schedule of a deployed ranker is enabled, or more than one.
        OVERDUE: the due run of a deployed ranker has not started.
        WAITING: the last run of a deployed ranker waits for a pod that does not start.
        INTERRUPTED: stopped by SIGINT.
        TERMINATED: stopped by SIGTERM.
    """

    DONE = 0
    FAILED = 1
    MISTAKE = 2
    REJECTED = 3
    ROOT_IN_USE = 4
    UNSCHEDULED = 5
    OVERDUE = 6
    WAITING = 7
    INTERRUPTED = 128 + signal.SIGINT
    TERMINATED = 128 + signal.SIGTERM


WELL_ENDED = (ExitCode.DONE, ExitCode.REJECTED, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
"""Codes of a run that did not fail: its model was judged, or a signal stopped it."""


def of_signal(number: int) -> int:
    """Returns the exit code of a process that a signal has stopped, as in a shell."""
    return 128 + number


def as_exit_code(returncode: int) -> int:
    """Returns the exit code for a return code of `subprocess`, which is negative for a signal."""
    return of_signal(-returncode) if returncode < 0 else returncode
