"""Several processes that serve one folder at one address: starts them, starts again those that end, stops all.

Python computes one thing at a time in a process. Here each process has its own version of the model, and the kernel
deals connections to those that listen. All begin to listen when the same version is ready in all of them; one that is
started again, when its own version is.
"""

import json
import logging
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from sangam.components.processes.group import ProcessGroup
from sangam.components.server.announcing import announced
from sangam.components.server.control import LISTEN, STATE, ask, is_too_long
from sangam.components.server.options import Options, arguments_of
from sangam.components.server.ports import held
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.backoff import Backoff
from sangam.schemas.host.stop_signal import StopSignal

_LOG = logging.getLogger("sangam.components.server")
_MODULE = "sangam.components.server"
_POLL_S = 0.1
_LISTEN_S = 15.0
_ABORT_S = 5.0
"""Time for a process to end after its grace period."""
_BACKOFF = Backoff(first_s=0.5, max_s=30.0)
_LASTING_S = 60.0
"""A process that has run for so long had started well."""


@dataclass(frozen=True)
class State:
    """What a process serves.

    Attributes:
        name: name of the model.
        is_checked: whether it has looked at the folder.
        version: number; None: it serves none.
        is_empty: whether the folder has no version.
    """

    name: str
    is_checked: bool
    version: int | None
    is_empty: bool


def supervise(options: Options) -> int:
    """Serves by several processes until SIGTERM or SIGINT.

    Returns:
        The exit code; that of a process which ends before all of them are ready.

    Raises:
        UserError: the folder of temporary files has too long a path.
    """
    stopped = StopSignal(signal.SIGTERM, signal.SIGINT)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sangam-serve-")))
        if is_too_long(folder):
            raise UserError(f"TMPDIR: too long a path for sockets (got {folder}); give another folder, such as /tmp")
        ports = stack.enter_context(held(options))
        own = replace(
            options,
            grpc_port=ports[0],
            rest_port=ports[1],
            map_tables=True,
            address_file=None,
            metrics_target=None,
            parent_pid=os.getpid(),
        )
        workers = [_Worker(replace(own, control=folder / str(number))) for number in range(options.processes)]
        stack.callback(_end, workers)
        for worker in workers:
            worker.start()
        while (state := _agreed([worker.state() for worker in workers])) is None:
            if stopped.wait(_POLL_S):
                return ExitCode.DONE
            for worker in workers:
                if (code := worker.exit_code()) is not None:
                    _LOG.error("worker=%s exit_code=%d: ended before all were ready", worker.name, code)
                    return max(code, ExitCode.FAILED)
        for worker in workers:
            worker.listen()
        stack.enter_context(announced(options, name=state.name, ports=ports, is_empty=state.is_empty))
        while not stopped.wait(_POLL_S):
            for worker in workers:
                worker.keep(time.monotonic())
        return ExitCode.DONE


def _agreed(states: Sequence[State | None]) -> State | None:
    """Returns what all processes serve; None while one has not looked, or serves another version."""
    if any(state is None or not state.is_checked for state in states) or len(set(states)) > 1:
        return None
    return states[0]


class _Worker:
    """One of the processes, which is started again when it ends.

    Attributes:
        name: its number, from 0.
    """

    def __init__(self, options: Options):
        assert options.control is not None
        self._control, self._arguments = options.control, arguments_of(options)
        self._grace_s = options.grace_s + _ABORT_S
        self.name = self._control.name
        self._group: ProcessGroup | None = None
        self._listens = False
        self._failures, self._started_at = 0, 0.0
        self._due: float | None = None

    def start(self) -> None:
        self._control.unlink(missing_ok=True)
        self._group = ProcessGroup([_MODULE, *self._arguments], grace_s=self._grace_s)
        self._listens, self._started_at, self._due = False, time.monotonic(), None

    def exit_code(self) -> int | None:
        return self._group.exit_code() if self._group else None

    def state(self) -> State | None:
        """Returns what it serves; None while it does not answer."""
        answer = ask(self._control, STATE)
        return State(**json.loads(answer)) if answer else None

    def listen(self) -> None:
        """Lets it listen for requests; ends it if it does not."""
        self._listens = ask(self._control, LISTEN, _LISTEN_S) is not None
        if not self._listens:
            _LOG.error("worker=%s: does not listen after %.0f s; ends", self.name, _LISTEN_S)
            self.end()

    def keep(self, now: float) -> None:
        """Starts it again after its end, ever later if it does not last; lets it listen once it is ready."""
        code = self.exit_code()
        if code is None:
            if not self._listens and (state := self.state()) and state.is_checked:
                self.listen()
        elif self._due is None:
            self._failures = 0 if now - self._started_at > _LASTING_S else self._failures
            wait_s = _BACKOFF.wait_s(self._failures)
            self._failures, self._due = self._failures + 1, now + wait_s
            _LOG.error("worker=%s exit_code=%d: ended; starts again in %.1f s", self.name, code, wait_s)
        elif now >= self._due:
            self.start()

    def ask_to_end(self) -> None:
        if self._group:
            self._group.ask_to_end()

    def end(self) -> None:
        if self._group:
            self._group.end()


def _end(workers: Sequence[_Worker]) -> None:
    """Ends all processes, at the same time."""
    for worker in workers:
        worker.ask_to_end()
    for worker in workers:
        worker.end()
