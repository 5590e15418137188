"""A `sangam run` as a child process: it ends with its parent, and none of it is left behind."""

from collections.abc import Sequence
from pathlib import Path

from components.processes.group import ProcessGroup
from components.processes.stopping import GRACE_S, StopSignals

CHILD_GRACE_S = GRACE_S + 5.0
"""A run that is asked to stop kills what is left of itself after its own grace."""


def run_child(arguments: Sequence[str], log: Path, stop: StopSignals, *, module: str = "pipelines.cli") -> int:
    """Runs `sangam` with these arguments to its end and returns its exit code.

    Args:
        arguments: of the command.
        log: gets its output; replaced.
        stop: entered by the caller; a signal is handed on to the child, which is waited for.
        module: that is run.

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
        # Out of the reach of further signals.
        if child:
            child.end()
