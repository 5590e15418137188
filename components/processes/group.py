"""Runs a Python module as the leader of its own process group, and leaves none of the group behind."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_LOG = logging.getLogger(__name__)
_GRACE_S = 15.0
_POLL_S = 0.1


def run_group(module_and_arguments: Sequence[str], *, log: Path) -> int:
    """Runs `python -m ...` to its end and returns its exit code.

    Whatever ends this call - the leader's own end, Ctrl-C, an exception raised by a SIGTERM handler - the group gets
    SIGTERM, and SIGKILL after a grace. A kill -9 of this process must be noticed by the leader itself.
    """
    with log.open("ab") as output:
        leader = subprocess.Popen(
            [sys.executable, "-m", *module_and_arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _LOG.info("started pid=%d command=%s", leader.pid, module_and_arguments)
    try:
        return leader.wait()
    finally:
        end_group(leader)


def end_group(
    leader: "subprocess.Popen[bytes]", number: signal.Signals = signal.SIGTERM, grace_s: float = _GRACE_S
) -> None:
    """Ends every process of the leader's group and reaps the leader.

    Args:
        leader: started in a session of its own.
        number: of the signal to ask with.
        grace_s: from there to SIGKILL.
    """
    if leader.poll() is None:
        _signal_group(leader.pid, number)
        deadline = time.monotonic() + grace_s
        while leader.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    _signal_group(leader.pid, signal.SIGKILL)
    leader.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)
