"""A server's life as a process: it starts, waits, drains and ends."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.components.server.sample_models import candidates, put, scores
from tests.components.server.server_process import refusal, running, start, wait_until
from tests.errors import tells
from tests.schemas.sample_exports import sample_description

pytestmark = pytest.mark.processes


def test_sigterm_lets_running_requests_end_and_takes_no_new_ones(models: dict[int, Path], scratch: Path) -> None:
    with running(models[1], scratch) as server:
        answers: list[Any] = []
        slow = {"seconds": np.array([8.0], np.float32)}
        by_grpc = threading.Thread(target=lambda: answers.append(server.client.predict("slow", slow, 60)["like"]))
        by_rest = threading.Thread(
            target=lambda: answers.append(server.post({"signature_name": "slow", "instances": [8.0]}).json())
        )
        by_grpc.start()
        by_rest.start()
        wait_until(lambda: server.metric("sangam_requests_in_flight") == 2, "two requests run")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not _listens(server.process.pid), "new connections are refused")
        assert server.process.poll() is None
        by_grpc.join()
        by_rest.join()
        assert {str(answer) for answer in answers} == {"[[1.]]", "{'predictions': [[1.0]]}"}
        assert server.process.wait(60) == 0
        assert "stopped=true requests_drained=2 requests_left=0" in server.log.read_text()


@pytest.mark.long
def test_the_grace_period_is_not_exceeded(models: dict[int, Path], scratch: Path) -> None:
    with running(models[1], scratch, "--grace-s", "0.5", "--as-json") as server:
        [told] = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
        assert (told["grpc"], told["has_version"]) == (server.grpc, True)
        slow = {"seconds": np.array([60], np.float32)}
        asking = threading.Thread(target=lambda: refusal(lambda: server.client.predict("slow", slow, 60)))
        asking.start()
        wait_until(lambda: server.metric("sangam_requests_in_flight") == 1, "a request runs")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert "stopped=true requests_drained=0 requests_left=1" in server.log.read_text()
        asking.join()


def test_a_folder_without_a_version_is_unavailable_until_one_comes(
    models: dict[int, Path], tmp_path: Path, scratch: Path
) -> None:
    folder = tmp_path / "feed"
    folder.mkdir()
    with running(folder, scratch) as server:
        code, text = refusal(lambda: server.client.predict("rank", candidates(1), 60))
        assert code == "UNAVAILABLE"
        assert tells(text, "model feed", "(got none)")
        assert server.post({"instances": []}).status_code == 503
        assert server.get("/readyz").status_code == 503
        assert server.log.read_text().count(f"{folder} has no version") == 1
        assert server.get("/healthz").status_code == 200
        assert _health(server.grpc) == health_pb2.HealthCheckResponse.NOT_SERVING
        put(models[1], folder, 20240307001)
        wait_until(lambda: server.get("/readyz").status_code == 200, "a version is ready")
        assert _health(server.grpc) == health_pb2.HealthCheckResponse.SERVING
        np.testing.assert_array_equal(
            server.client.predict("rank", candidates(2), 10, version=20240307001)["like"], scores(1, 2)
        )


def test_it_ends_with_its_parent(models: dict[int, Path], scratch: Path) -> None:
    parent = subprocess.Popen(["sleep", "600"])
    try:
        address_file = scratch / "address.json"
        options = ("--parent-pid", str(parent.pid), "--address-file", str(address_file))
        process = start(models[1], scratch / "log", *options)
        wait_until(address_file.exists, "the server is ready")
        children = psutil.Process(process.pid).children(recursive=True)
        parent.kill()
        parent.wait()
        assert process.wait(60) == 0
        assert not [child for child in children if child.is_running()]
    finally:
        parent.kill()


@pytest.mark.long
def test_a_model_that_cannot_be_loaded_ends_the_server_with_the_reason(
    models: dict[int, Path], tmp_path: Path, scratch: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(models[1], broken)
    shutil.rmtree(broken / "variables")
    address_file = scratch / "address.json"
    process = start(broken, scratch / "log", "--address-file", str(address_file))
    assert process.wait(60) == 1
    assert "refused=cannot_load served=none" in (scratch / "log").read_text()
    assert not address_file.exists()


def test_sangam_serve_tells_where_it_listens_and_names_the_model_by_its_description(
    models: dict[int, Path], tmp_path: Path
) -> None:
    version = put(models[1], tmp_path / "serving", 20240307001, with_manifest=False)
    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "ranker.json").write_text(sample_description().text())
    command = [
        sys.executable,
        "-m",
        "sangam.pipelines.cli",
        "serve",
        str(version),
        "--grpc-port",
        "0",
        "--rest-port",
        "0",
    ]
    process = subprocess.Popen(
        [*command, "--host", "0.0.0.0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert process.stdout.readline().startswith("serving short_video: gRPC 0.0.0.0:")
    finally:
        process.terminate()
        _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "no authentication" in log
    assert "version=20240307001" in log


def test_a_taken_port_and_a_missing_folder_are_the_users_mistakes(tmp_path: Path, scratch: Path) -> None:
    process = start(tmp_path / "none", scratch / "log")
    assert process.wait(60) == 2
    assert "DIR: no such folder" in (scratch / "log").read_text()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        processes = [start(tmp_path, scratch / flag, f"--{flag}-port", str(port)) for flag in ("grpc", "rest")]
        assert [process.wait(60) for process in processes] == [2, 2]
    for flag in ("grpc", "rest"):
        assert tells((scratch / flag).read_text(), f"--{flag}-port", f"(got 127.0.0.1:{port}")


def _listens(pid: int) -> bool:
    """Says whether a process has listening sockets; to connect would not tell, as a freed port may be another's."""
    return any(each.status == psutil.CONN_LISTEN for each in psutil.Process(pid).net_connections("tcp"))


def _health(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
        return int(answer.status)
