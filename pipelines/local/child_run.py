"""A `sangam run` as a child process: it ends with its parent, and none of it is left behind."""

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from components.processes.group import end_group
from components.processes.stopping import GRACE_S, StopSignals
from trainer_module.launch.processes import end_with_parent

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
    end = functools.partial(end_with_parent, os.getpid(), signal.SIGTERM)
    child = None
    try:
        with stop.raised(), log.open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Its own group: Ctrl-C is for this process, which hands it on once.
                start_new_session=True,
                preexec_fn=end,
            )
            return child.wait()
    finally:
        # Out of the reach of further signals.
        if child:
            end_group(child, grace_s=CHILD_GRACE_S)
