"""The command as a process: what it prints, and how it ends."""

import http.client
import json
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sangam.components.record.lock import locked
from sangam.pipelines.ui.process import Options, serve
from sangam.schemas.errors import UserError
from tests.errors import place_and_value
from tests.pipelines.ui.sample_root import write_running, write_runs
from tests.pipelines.ui.server import sangam_ui

RUNNING = "20240310T020000-1a2b3c4d"


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_ends_it_at_once_though_somebody_listens(tmp_path: Path, signum: signal.Signals) -> None:
    root = write_runs(tmp_path)
    write_running(root, RUNNING, now=time.time())
    with locked(root.path), sangam_ui(tmp_path) as (address, process):
        with urllib.request.urlopen(f"{address}runs/{RUNNING}/events") as stream:
            lines = [stream.readline() for _ in range(4)]
            assert json.loads(lines[3].removeprefix(b"data: "))["state"] == "running"
            process.send_signal(signum)
            # aiohttp by itself would wait a minute for the stream.
            assert process.wait(30) == 0
        assert process.stderr
        assert process.stderr.read() == ""


@pytest.mark.long
@pytest.mark.slow
def test_bound_elsewhere_it_makes_a_token_and_prints_it_once(tmp_path: Path) -> None:
    with sangam_ui(tmp_path, "--host", "0.0.0.0") as (address, _):
        place, _, token = address.partition("?token=")
        assert len(token) >= 32
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(place)
        connection = http.client.HTTPConnection(place.removeprefix("http://").rstrip("/"))
        connection.request("GET", f"//evil.example/?token={token}")
        assert connection.getresponse().headers["Refresh"] in ("0; url=/", "0; url=/evil.example/")
        asked = urllib.request.Request(place, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked) as answer:
            assert answer.status == 200


@pytest.mark.slow
def test_a_program_gets_the_address_as_json(tmp_path: Path) -> None:
    with sangam_ui(tmp_path, "--json", reads=json.loads) as (told, _):
        assert set(told) == {"root", "address", "token"}
        assert told["token"] is None
        with urllib.request.urlopen(told["address"]) as answer:
            assert answer.status == 200


@pytest.mark.slow
def test_a_token_that_was_given_is_not_printed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-enough-characters")
    with sangam_ui(tmp_path, "--token-file", str(tmp_path / "token")) as (address, _):
        assert "token" not in address
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"))
        connection.request("GET", "/")
        assert connection.getresponse().status == 401


def test_a_port_in_use_and_a_root_that_is_none_are_mistakes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=place_and_value("--port", f"127.0.0.1:{port}")):
            serve(Options(tmp_path, "127.0.0.1", port))
    with pytest.raises(UserError, match=place_and_value("ROOT", str(tmp_path / "none"))):
        serve(Options(tmp_path / "none", "127.0.0.1", 0))
