"""The programs of a soak: started as their users do, found by role, killed, and started again."""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.e2e.user_run import start
from tests.kafka.broker import Broker
from tests.soak.online.world import ACTIONS, SOURCE, VIEWS, SoakWorld

ROLES = {
    "rank": "sangam.trainer_module",
    "launcher": "sangam.trainer_module.launch.launcher",
    "joiner": "sangam.components.stream",
}
"""The module that each kind of process below `sangam online` runs."""
SUPERVISOR, SERVER, BROKER = "supervisor", "server", "broker"
KINDS = (*ROLES, SUPERVISOR, SERVER, BROKER)
_MOST_AWAY_S = {SUPERVISOR: 3.0, SERVER: 3.0, BROKER: 8.0}
"""Until it is started again."""


class Programs:
    """All of them.

    Attributes:
        kills: by kind.
        crashes: of programs that nobody had killed, and that are supposed never to end.
    """

    def __init__(self, world: SoakWorld, broker: Broker | None, *, seed: int):
        """Takes a running broker, or None where files are read; starts nothing."""
        self._world, self._broker, self._chance = world, broker, random.Random(seed)
        self._online: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._starts, self._restarting = Counter[str](), threading.Lock()
        self.kinds = [kind for kind in KINDS if broker is not None or kind != BROKER]
        self.kills: Counter[str] = Counter()
        self.crashes: list[str] = []

    def start(self) -> None:
        """Starts online training and a server."""
        self._start_online()
        self._start_server()

    def start_crashed(self) -> None:
        """Starts again what has ended by itself, and notes it."""
        for name, process, restart in (
            (SUPERVISOR, self._online, self._start_online),
            (SERVER, self._server, self._start_server),
        ):
            if process is not None and process.poll() is not None:
                self.crashes.append(f"{name}: exit code {process.returncode}")
                restart()

    def kill(self, kind: str) -> bool:
        """Kills a process of a kind, and starts again what nothing else does; returns whether there was one."""
        victims = [pid for role, pid in self.processes() if role == kind]
        if kind == BROKER:
            self._restarting.acquire()  # Before the thread starts, for `wait_for_broker`.
            threading.Thread(target=self._break_broker, daemon=True).start()
        elif not victims:
            return False
        else:
            os.kill(self._chance.choice(victims), signal.SIGKILL)
        self.kills[kind] += 1
        if kind in (SUPERVISOR, SERVER):
            process = self._online if kind == SUPERVISOR else self._server
            assert process is not None
            process.wait()
            time.sleep(self._chance.uniform(0.0, _MOST_AWAY_S[kind]))
            (self._start_online if kind == SUPERVISOR else self._start_server)()
        return True

    def processes(self) -> list[tuple[str, int]]:
        """Returns kind and process number of everything that runs."""
        found = []
        for kind, process in ((SUPERVISOR, self._online), (SERVER, self._server)):
            if process is not None and process.poll() is None:
                found.append((kind, process.pid))
        if self._online is not None and self._online.poll() is None:
            for child in psutil.Process(self._online.pid).children(recursive=True):
                try:
                    words = child.cmdline()
                except psutil.Error:
                    continue
                found += [(role, child.pid) for role, module in ROLES.items() if module in words]
        return found

    def wait_for_broker(self) -> None:
        """Waits until the broker runs."""
        with self._restarting:
            pass

    def stop_online(self) -> int:
        """Ends online training by SIGTERM; returns its exit code."""
        assert self._online is not None
        self._online.terminate()
        return self._online.wait(240)

    def end(self) -> None:
        """Ends what still runs."""
        for process in (self._online, self._server):
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(150)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def addresses(self) -> dict[str, str] | None:
        """Returns the server's addresses; None while it starts."""
        try:
            found: dict[str, str] = json.loads(self._addresses.read_text())
            return found
        except (OSError, ValueError):
            return None

    def served(self) -> dict[str, Any] | None:
        """Returns what the server says of deltas; None while it is away."""
        addresses = self.addresses()
        try:
            return httpx.get(f"http://{addresses['rest']}/deltas", timeout=10).json() if addresses else None
        except httpx.TransportError:
            return None

    @property
    def _addresses(self) -> Path:
        return self._world.directory / "addresses.json"

    def _break_broker(self) -> None:
        assert self._broker is not None
        try:
            self._broker.kill()
            time.sleep(self._chance.uniform(0.0, _MOST_AWAY_S[BROKER]))
            self._broker.start()
        finally:
            self._restarting.release()

    def _start_online(self) -> None:
        source = ["--source", str(self._world.stream)]
        if self._broker is not None:
            topics = ["--topic", VIEWS, "--topic", f"{SOURCE}={ACTIONS}"]
            source = ["--source", f"kafka://{self._broker.address}", *topics]
        self._online = self._start(
            "online", ["online", str(self._world.spec), *source, "--root", str(self._world.root)]
        )

    def _start_server(self) -> None:
        self._addresses.unlink(missing_ok=True)
        ports = ["--grpc-port", "0", "--rest-port", "0", "--address-file", str(self._addresses), "--poll-s", "1"]
        self._server = self._start("serve", ["serve", str(self._world.versions), *ports])

    def _start(self, name: str, arguments: list[str]) -> "subprocess.Popen[bytes]":
        self._starts[name] += 1
        return start(arguments, self._world.directory / f"{name}-{self._starts[name]:03d}.txt")


def wait_for(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Waits, and fails with a word when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.5)
