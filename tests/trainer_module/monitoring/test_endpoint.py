"""An endpoint for Prometheus: found by a file, silent about its own faults, clear about a port in use."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import Gauge

from sangam.schemas.contracts.monitoring import Target, withdraw_all
from sangam.schemas.errors import UserError
from sangam.trainer_module.monitoring import endpoint as module
from sangam.trainer_module.monitoring.endpoint import Endpoint, new_registry
from tests.errors import tells


def _target(folder: Path, process: str = "rank-0") -> Target:
    return Target.of(folder, "sangam-trainer", "small", process)


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    served = Endpoint(new_registry(), host="127.0.0.1", port=0, place="monitoring.port", target=_target(tmp_path))
    yield served
    served.close()


def test_prometheus_finds_it_by_a_file_while_it_serves(tmp_path: Path, endpoint: Endpoint) -> None:
    [file] = tmp_path.iterdir()
    [group] = json.loads(file.read_text())
    assert group["targets"] == [endpoint.address]
    assert set(group["labels"]) == {"job", "ranker", "process", "instance"}
    page = httpx.get(f"http://{group['targets'][0]}/metrics")
    assert "process_resident_memory_bytes" in page.text
    assert httpx.get(f"http://{endpoint.address}/").status_code == 404
    endpoint.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{endpoint.address}/metrics")


def test_a_port_in_use_is_told_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError) as refused:
            Endpoint(new_registry(), host="127.0.0.1", port=port, place="monitoring.port", target=_target(tmp_path))
    assert tells(str(refused.value), "monitoring.port", f"(got 127.0.0.1:{port}: Address already in use)")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    served = Endpoint(
        new_registry(), host="127.0.0.1", port=0, place="monitoring.port", target=_target(tmp_path / "file" / "metrics")
    )
    assert httpx.get(f"http://{served.address}/metrics").status_code == 200
    served.close()


def test_a_metric_that_fails_is_an_answer_and_the_next_scrape_may_succeed() -> None:
    registry, is_broken = new_registry(), [True]
    Gauge("broken", "Fails.", registry=registry).set_function(lambda: 1 / 0 if is_broken[0] else 1.0)
    served = Endpoint(registry, host="127.0.0.1", port=0, place="monitoring.port")
    assert httpx.get(f"http://{served.address}/metrics").status_code == 500
    is_broken[0] = False
    assert "broken 1.0" in httpx.get(f"http://{served.address}/metrics").text
    served.close()


def test_a_client_that_stops_half_way_holds_nothing_up(monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 1.0)
    host, port = endpoint.address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as slow:
        slow.sendall(b"GET /metrics HT")
        assert httpx.get(f"http://{endpoint.address}/metrics").status_code == 200
        assert slow.recv(1) == b""


def test_files_of_killed_processes_of_the_ranker_go_and_no_others(tmp_path: Path) -> None:
    for process in ("rank-0", "rank-7", "dispatcher"):
        _target(tmp_path, process).announce("127.0.0.1:1")
    Target.of(tmp_path, "sangam-trainer", "small_2", "rank-0").announce("127.0.0.1:1")
    Target.of(tmp_path, "sangam-online", "small", "rank-0").announce("127.0.0.1:1")
    withdraw_all(tmp_path, "sangam-trainer", "small")
    assert {file.name for file in tmp_path.iterdir()} == {
        "sangam-trainer.small_2.rank-0.json",
        "sangam-online.small.rank-0.json",
    }
