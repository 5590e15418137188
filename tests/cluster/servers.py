"""The programs of a cluster as processes: each has a log, and is ended with the others."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sangam.schemas.host.files import tail

_GRACE_S = 15.0
_LOG_LINES = 15


@dataclass
class Servers:
    """Running programs.

    Attributes:
        programs: folder of their binaries.
        folder: where they run and log.
    """

    programs: Path
    folder: Path
    _running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    _commands: dict[str, tuple[list[str], dict[str, str]]] = field(default_factory=dict)

    def start(self, name: str, *arguments: object, env: dict[str, str] | None = None, program: str = "") -> None:
        """Starts a program, from `programs` unless its path is given."""
        self._commands[name] = ([program or str(self.programs / name), *map(str, arguments)], os.environ | (env or {}))
        self._start(name)

    def _start(self, name: str) -> None:
        command, env = self._commands[name]
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=env, start_new_session=True
            )

    def log(self, name: str) -> Path:
        """Returns the file with all that a program has printed."""
        return self.folder / f"{name}.log"

    def is_running(self, name: str) -> bool:
        return name in self._running

    def stop(self, name: str) -> None:
        """Ends a program by SIGTERM, and by SIGKILL after a grace period."""
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self) -> None:
        """Ends all programs, the last started first."""
        for name in [*self._running][::-1]:
            self.stop(name)

    def interrupt(self, name: str, seconds: float) -> None:
        """Kills a program, and starts it again with the same arguments after so long."""
        process = self._running[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(seconds)
        self._start(name)

    def until(self, condition: Callable[[], object], what: str, seconds: float) -> None:
        """Waits for something to come true; fails with the logs of what has ended."""
        deadline = time.monotonic() + seconds
        while not condition():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise AssertionError(f"{name} ended with {process.returncode}\n{self.end_of_log(name)}")
            if time.monotonic() > deadline:
                logs = "\n".join(f"{name}:\n{self.end_of_log(name)}" for name in self._running)
                raise AssertionError(f"not within {seconds:.0f} s: {what}\n{logs}")
            time.sleep(0.1)

    def end_of_log(self, name: str) -> str:
        return tail(self.log(name), _LOG_LINES)


def free_port(address: str = "127.0.0.1") -> int:
    """Returns a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def accepts(address: str, port: int) -> bool:
    """Returns whether something listens."""
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0
