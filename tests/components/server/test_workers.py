"""Several processes that serve one folder at one address."""

import re
import signal
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from sangam.components.server.client import connect
from tests.components.server.compared_models import put_compared
from tests.components.server.sample_models import NAME, candidates, put, scores
from tests.components.server.server_process import Running, running, wait_until

pytestmark = pytest.mark.processes
_MANY = 40
"""Connections: that all go to one of two processes happens once in 2^39 times."""


def _asked(server: Running, version: int) -> None:
    """Asks over new connections."""
    for _ in range(_MANY):
        with connect(server.grpc, NAME) as client:
            answer = client.predict("rank", candidates(2), 30)["like"]
        np.testing.assert_array_equal(answer, scores(version, 2))


def _versions(server: Running) -> list[tuple[str, str]]:
    """Returns worker and version of what is served."""
    lines = [line for line in server.get("/metrics").text.splitlines() if line.startswith("sangam_version_served{")]
    return sorted((line.split('"')[1], line.split('"')[5]) for line in lines)


def _compared_alone(server: Running) -> float:
    """Asks once more, and returns the rows that were compared."""
    server.client.predict("rank", candidates(2), 30)
    return server.metric("sangam_drift_rows")


def test_two_processes_are_one_server(models: dict[int, Path], tmp_path: Path, scratch: Path) -> None:
    folder = tmp_path / "versions"
    put_compared(models[1], folder, 1)
    with running(folder, scratch, "--processes", "2", "--threads", "1") as server:
        processes = psutil.Process(server.process.pid).children(recursive=True)
        assert len(processes) == 2
        assert _versions(server) == [("0", "1"), ("1", "1")]
        _asked(server, 1)
        counts = [server.metric("sangam_requests_total", worker=worker, api="grpc") for worker in ("0", "1")]
        assert min(counts) > 0
        assert sum(counts) == _MANY

        # What each has counted is one comparison of both.
        lines = [line for line in server.get("/metrics").text.splitlines() if line.startswith("sangam_drift_rows{")]
        assert [re.findall(r'(\w+)="', line) for line in lines] == [["hour"], ["hour"]]
        wait_until(lambda: _compared_alone(server) > 0, "requests are compared")

        # A version reaches all.
        put(models[2], folder, 2)
        wait_until(lambda: _versions(server) == [("0", "2"), ("1", "2")], "both serve version 2")
        _asked(server, 2)

        # One that dies is started again, and nothing fails meanwhile.
        processes[0].send_signal(signal.SIGKILL)
        wait_until(lambda: "worker=0 exit_code=-9" in server.log.read_text(), "the end is noticed")
        assert [server.served() for _ in range(5)] == [f"ready {NAME} 2"] * 5
        wait_until(lambda: _versions(server) == [("0", "2"), ("1", "2")], "it serves again")
        _asked(server, 2)

        processes = psutil.Process(server.process.pid).children(recursive=True)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert not [process for process in processes if process.is_running()]
        assert server.log.read_text().count("stopped=true") == 2
        with pytest.raises(httpx.ConnectError):
            server.get("/readyz")
