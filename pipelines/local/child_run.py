"""A `sangam run` as a child process: it ends with its parent and leaves no processes."""

from collections.abc import Sequence
from pathlib import Path

from sangam.components.processes.group import ProcessGroup
from sangam.components.processes.stopping import GRACE_S, StopSignals

CHILD_GRACE_S = GRACE_S + 5.0
"""Seconds from a stop request until the child run is killed; the run itself kills its own processes after GRACE_S."""


def run_child(arguments: Sequence[str], log: Path, stop: StopSignals, *, module: str = "sangam.pipelines.cli") -> int:
    """Runs `sangam` with these arguments to its end and returns its exit code.

    Args:
        arguments: arguments of the command.
        log: file for its output, replaced.
        stop: signal handling, entered by the caller; a signal is forwarded to the child, whose end is awaited.
        module: module to run.

    Raises:
        Stopped: after a signal, when the child has ended.
    """
    child = None
    try:
        with stop.raised():
            log.write_bytes(b"")
            child = ProcessGroup([module, *arguments], log=log, grace_s=CHILD_GRACE_S, ends_with_parent=True)
            return child.wait()
    finally:
        # Out of reach of further signals.
        if child:
            child.end()
