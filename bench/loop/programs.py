"""The programs of the loop: servers, online training, daily runs and checks, as processes with the world's clock."""

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.loop.spec import NAME
from tests.e2e import warm_commands
from tests.trainer_module.launch.warm import Warm

_RANK, _JOINER = "sangam.trainer_module", "sangam.components.stream"


_started: list["Program"] = []


class Program:
    """One command that is started and looked at."""

    def __init__(self, arguments: Sequence[str], log: Path):
        """Starts `sangam ARGUMENTS`; its output goes to a file, its errors to one beside it."""
        self.log, self.errors = log, log.with_suffix(".err")
        for file in (self.log, self.errors):
            file.unlink(missing_ok=True)
        self._process: Warm = warm_commands.start(arguments, _variables(), self.log, self.errors)
        _started.append(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def code(self) -> int | None:
        """Returns the exit code, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()

    def end(self, longest_s: float = 150) -> int:
        """Asks it to end, and returns its exit code."""
        self._process.terminate()
        return self._process.wait(longest_s)

    def wait(self, longest_s: float = 280) -> int:
        """Returns its exit code once it has ended."""
        return self._process.wait(longest_s)

    def said(self) -> str:
        """Returns all that it has printed."""
        return "".join(file.read_text(errors="replace") for file in (self.log, self.errors) if file.exists())


class Server:
    """A server that is started again whenever it has ended.

    Attributes:
        starts: how often it was started.
        program: its process.
    """

    def __init__(self, folder: Path, name: str, versions: Path, requests: Path | None):
        """Starts it.

        Args:
            folder: for its output.
            name: of its files there.
            versions: folder of versions.
            requests: folder of the log of requests; None: none.
        """
        self._folder, self._name, self._versions, self._requests = folder, name, versions, requests
        self._addresses = folder / f"{name}.json"
        self.starts = 0
        self._client = httpx.Client(timeout=30)
        self._start()

    def _start(self) -> None:
        self._addresses.unlink(missing_ok=True)
        self._url = ""
        words = ["serve", str(self._versions), "--grpc-port", "0", "--rest-port", "0", "--poll-s", "0.5"]
        words += ["--address-file", str(self._addresses), *(["--log", str(self._requests)] if self._requests else [])]
        self.starts += 1
        self.program = Program(words, self._folder / f"{self._name}-{self.starts}.log")

    def is_ready(self) -> bool:
        """Says whether it answers; starts it again if it has ended."""
        if self.program.code() is not None:
            self._start()
        if not self._url and self._addresses.exists():
            self._url = f"http://{json.loads(self._addresses.read_text())['rest']}"
        return bool(self._url)

    def wait_until_ready(self, longest_s: float = 120) -> None:
        """Waits until it answers.

        Raises:
            TimeoutError: it does not.
        """
        given_up = time.monotonic() + longest_s
        while not self.is_ready():
            if time.monotonic() > given_up:
                raise TimeoutError(f"{self._name} does not answer:\n{self.program.said()[-3000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kills it."""
        self.program.kill()
        self.program.wait()
        self._url = ""

    def scores(self, inputs: dict[str, Any], request_id: str = "") -> list[float]:
        """Returns the scores of candidates.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        body = {"signature_name": "rank", "inputs": inputs}
        headers = {"x-request-id": request_id} if request_id else {}
        answer = self._client.post(f"{self._url}/v1/models/{NAME}:predict", json=body, headers=headers)
        outputs = answer.raise_for_status().json()["outputs"]
        return [each[0] for each in (outputs["click"] if isinstance(outputs, dict) else outputs)]

    def deltas(self) -> dict[str, Any]:
        """Returns which version and delta it serves, and how old the newest event in them is."""
        document: dict[str, Any] = self._client.get(f"{self._url}/deltas").json()
        return document

    def metrics(self) -> dict[str, float]:
        """Returns its counters of the log."""
        lines = self._client.get(f"{self._url}/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line.startswith("sangam_request_log"))
        return {name: float(value) for name, value in pairs}


def end_all() -> None:
    """Kills what still runs of all that was started."""
    while _started:
        program = _started.pop()
        if program.code() is None:
            program.kill()
            program.wait()


def kill_of_online(root: Path, kind: str) -> bool:
    """Kills the joiner, or the ranks, of online training; says whether there was one."""
    module, found = {"joiner": _JOINER, "rank": _RANK}[kind], False
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if module in words and any(str(root / "online") in word for word in words):
            os.kill(process.pid, signal.SIGKILL)
            found = True
    return found


def _variables() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
