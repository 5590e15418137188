"""Runs a Python module as the leader of its own process group, and ends the whole group."""

import functools
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import UTF8_OUTPUT

_LOG = logging.getLogger(__name__)
GRACE_S = 15.0
_POLL_S = 0.1


class ProcessGroup:
    """A running `python -m ...`. A terminal's signals do not reach it: the process that started it ends it.

    As a context manager, it ends with the block, also after Ctrl-C or an exception raised by a handler of SIGTERM.

    Attributes:
        pid: process id of the leader, and of the group.
    """

    def __init__(
        self,
        module_and_arguments: Sequence[str],
        *,
        log: Path | None = None,
        grace_s: float = GRACE_S,
        ends_with_parent: bool = False,
    ):
        """Starts the leader.

        Args:
            module_and_arguments: arguments after `python -m`.
            log: file that the group's output is added to; None: the output of this process.
            grace_s: grace period from SIGTERM to SIGKILL when the group is ended.
            ends_with_parent: the kernel sends the leader SIGTERM when this process is killed. Without it, the
                leader must detect this itself.
        """
        self._grace_s = grace_s
        preexec = functools.partial(end_with_parent, os.getpid(), signal.SIGTERM) if ends_with_parent else None
        with ExitStack() as stack:
            self._leader = subprocess.Popen(
                [sys.executable, "-m", *module_and_arguments],
                env=os.environ | UTF8_OUTPUT if log else None,
                stdin=subprocess.DEVNULL,
                stdout=stack.enter_context(log.open("ab")) if log else None,
                stderr=subprocess.STDOUT if log else None,
                start_new_session=True,
                preexec_fn=preexec,
            )
        self.pid = self._leader.pid
        _LOG.info("started pid=%d command=%s log=%s", self.pid, module_and_arguments, log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def exit_code(self) -> int | None:
        """Returns the leader's exit code, negative for a signal; None while it runs."""
        return self._leader.poll()

    def wait(self) -> int:
        """Waits for the leader's end and returns its exit code."""
        return self._leader.wait()

    def wait_for(self, seconds: float) -> int | None:
        """Waits for the leader's end; returns its exit code, None after the timeout."""
        try:
            return self._leader.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_end(self) -> None:
        """Sends SIGTERM to every process of the group, and does not wait."""
        if self._leader.poll() is None:
            self._signal(signal.SIGTERM)

    def end(self) -> None:
        """Ends every process of the group, by SIGTERM and then SIGKILL, and reaps the leader."""
        self.ask_to_end()
        if self._leader.poll() is None:
            deadline = time.monotonic() + self._grace_s
            while self._leader.poll() is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        self._signal(signal.SIGKILL)
        self._leader.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def run_group(module_and_arguments: Sequence[str], *, log: Path) -> int:
    """Runs `python -m ...` to its end, ends its whole group, and returns the exit code."""
    with ProcessGroup(module_and_arguments, log=log) as group:
        return group.wait()
