"""Forks a job's processes from one that has imported TensorFlow: `python -m ...launch.nursery PARENT_PID ROOM`.

Otherwise each would spend seconds on imports, all on the same cores. A fork is safe while TensorFlow has no threads;
it starts them with its first operation, and imports run none.

Requests arrive as lines of JSON on standard input, a socket; each reply is a line with the process id. The new process
is a child of the requesting process, and runs a module as `python -m` does.
"""

from sangam.schemas.host.needless_imports import leave_out_needless

if __name__ == "__main__":
    leave_out_needless()  # Before the imports, as in each forked process.

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sangam.schemas.host.files import tail
from sangam.schemas.host.parent_process import adopt_orphans, end_with_parent

_END_S = 5.0
_TAIL_LINES = 10
_ROOM = 2048
"""Length of the padding argument, which makes room for a forked process's command line in `ps`."""
FORKED = (
    "sangam.trainer_module",
    "sangam.trainer_module.export",
    "sangam.trainer_module.launch.data_service",
    "sangam.trainer_module.parameter_server",
)
"""Modules that run in forked processes. They are not imported beforehand: they run as main modules."""
_IMPORTED = (
    "tensorflow",
    "sangam.trainer_module.launch.data_service_metrics",
    "sangam.trainer_module.launch.lost_workers",
    "sangam.trainer_module.loop.training",
    "sangam.trainer_module.monitoring.endpoint",
    "sangam.trainer_module.online.learning",
    "sangam.trainer_module.parameter_server.client",
    "sangam.trainer_module.parameter_server.service",
    "sangam.trainer_module.serving.writing",
)
"""Imports of these modules."""


class Forked:
    """A forked process, with the part of `subprocess.Popen` that `Child` needs."""

    def __init__(self, pid: int):
        """Takes the process id."""
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs; negative: ended by that signal."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the process to end; returns the exit code.

        Raises:
            subprocess.TimeoutExpired: the process still runs after `timeout` seconds.
        """
        given_up = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if given_up is not None and time.monotonic() >= given_up:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Nursery:
    """Starts processes of a job by forks; a context manager.

    The first call starts the nursery's process. If it is lost, `start` returns None, and the next call starts another.
    """

    def __init__(self, log: Path, environment: Mapping[str, str]):
        """Takes the settings shared by all processes.

        Args:
            log: file to which the nursery's own output is appended.
            environment: their full environment.
        """
        self._log, self._environment = log, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._ended = ""

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked | None:
        """Starts a process; None: the nursery has ended, see its log.

        Args:
            arguments: arguments after `python -m`.
            environment: added to the shared environment.
            log: file to which the process's output is appended.
        """
        if self._channel is None:
            self._begin()
        assert self._channel is not None
        log.open("ab").close()  # There from now on, as with `subprocess.Popen`; the new process opens it later.
        request = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        try:
            self._channel.sendall(json.dumps(request).encode() + b"\n")
            answer = self._channel.recv(32)
        except OSError:
            answer = b""
        if not answer:
            self._ended = self._how_it_ended()
            self._close()
            return None
        return Forked(int(answer))

    def last_words(self) -> str:
        """Returns how the nursery ended, if it has, and the end of its output."""
        said = tail(self._log, _TAIL_LINES)
        return f"the process that forks {self._ended or 'runs'}, its log {self._log} ends with:\n{said}"

    def _how_it_ended(self) -> str:
        """Returns how a process ended that has closed its channel."""
        if self._process is None:
            return ""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "does not answer"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def _begin(self) -> None:
        # A forked process's own parent ends at once, so that this process adopts it.
        adopt_orphans()
        self._channel, its_end = socket.socketpair()
        with self._log.open("ab") as log, its_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sangam.trainer_module.launch.nursery", str(os.getpid()), "-" * _ROOM],
                env=self._environment,
                stdin=its_end.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._channel = self._process = None


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Forks a process per request. Returns the request in each forked process, and None here at the end of input."""
    for line in channel.makefile("rb"):
        receive, send = os.pipe()
        between = os.fork()
        if between == 0:
            own, pid = os.getpid(), os.fork()
            if pid == 0:
                os.close(receive)
                os.close(send)
                channel.close()
                while os.getppid() == own:  # From now on, its parent is the requesting process.
                    time.sleep(0.001)
                request: dict[str, Any] = json.loads(line)
                return request
            os.write(send, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        channel.sendall(os.read(receive, 32))
        os.close(receive)
        os.close(send)
    return None


def _become(request: Mapping[str, Any]) -> None:
    """Runs the requested module in this process, as `python -m` does."""
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for file, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(file, number)
    os.close(nothing)
    os.close(log)
    os.environ.update(request["environment"])
    module, *arguments = request["arguments"]
    _show([sys.executable, "-m", module, *arguments])
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _show(words: Sequence[str]) -> None:
    """Replaces the command line that `ps` shows."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5); 0 if the kernel hides them.
    if start:
        text = " ".join(words).encode()[: end - start - 2] + b"\0"
        # If the last byte of the arguments is not 0, the kernel reads them as one string up to the first 0.
        ctypes.memmove(start, text.ljust(end - start, b"-"), end - start)


def main(parent_pid: str) -> None:
    """Imports, then forks on request until the socket closes."""
    end_with_parent(int(parent_pid))
    _show([sys.executable, "-m", "sangam.trainer_module.launch.nursery", parent_pid])
    for module in _IMPORTED:
        importlib.import_module(module)
    # Keep the imported memory shared with the forked processes: a collection would write to all of it.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as channel:
        request = _serve(channel)
    if request is not None:
        _become(request)


if __name__ == "__main__":
    main(sys.argv[1])
