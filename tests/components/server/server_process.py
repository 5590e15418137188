"""A real server in a process of its own, and how it is asked."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx

from sangam.components.server.client import Client, connect
from tests.components.server.sample_models import NAME, candidates

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Running:
    """A server that runs.

    Attributes:
        process: its process.
        log: what it prints.
        grpc: host:port.
        rest: the beginning of each address of the REST interface.
        client: a connection to it.
    """

    process: "subprocess.Popen[bytes]"
    log: Path
    grpc: str
    rest: str
    client: Client

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.rest + path, timeout=TIMEOUT_S)

    def post(self, body: Any, path: str = f"/v1/models/{NAME}:predict") -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(self.rest + path, content=content, timeout=TIMEOUT_S)

    def metric(self, name: str, **labels: str) -> float:
        """Returns the sum of a metric's values whose labels include these."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [line for line in self.get("/metrics").text.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in wanted))

    def served(self) -> str:
        """Returns what /readyz says."""
        return self.get("/readyz").text.strip()


@contextmanager
def running(folder: Path, scratch: Path, *options: str, wait: bool = True) -> Iterator[Running]:
    """Starts a server on free ports; stops it and checks that nothing of it is left."""
    number = len(list(scratch.glob("*.log")))
    address_file, log = scratch / f"{number}.json", scratch / f"{number}.log"
    process = start(folder, log, "--address-file", str(address_file), "--parent-pid", str(os.getpid()), *options)
    try:
        wait_until(lambda: address_file.exists() or process.poll() is not None, "the server is ready")
        assert process.poll() is None, log.read_text()
        addresses = json.loads(address_file.read_text())
        with connect(addresses["grpc"], NAME) as client:
            yield Running(process, log, addresses["grpc"], f"http://{addresses['rest']}", client)
    except BaseException:
        process.send_signal(signal.SIGABRT)  # Prints the stacks of all threads.
        process.wait(TIMEOUT_S)
        print(log.read_text())
        raise
    finally:
        process.kill()
        process.wait(TIMEOUT_S)


def start(folder: Path, log: Path, *options: str) -> "subprocess.Popen[bytes]":
    """Starts a server and does not wait for it."""
    defaults = ["--name", NAME, "--grpc-port", "0", "--rest-port", "0", "--poll-s", "0.1", "--threads", "2"]
    command = [sys.executable, "-X", "faulthandler", "-m", "sangam.components.server", str(folder), *defaults, *options]
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
    """Waits, and fails with a word when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def refusal(ask: Callable[[], Any]) -> tuple[str, str]:
    """Returns the code and the words of a request that fails."""
    try:
        answer = ask()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    raise AssertionError(f"was answered: {answer}")


def is_answered(server: Running) -> bool:
    """Returns whether a request for scores is answered."""
    try:
        server.client.predict("rank", candidates(2), 1)
    except grpc.RpcError:
        return False
    return True


def b64(value: bytes) -> dict[str, str]:
    """Returns bytes as they are written in JSON."""
    return {"b64": base64.b64encode(value).decode()}
