"""The log of requests that a real server writes, as training reads it."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.components.request_log.folder import Folder
from sangam.components.server.client import Client
from sangam.schemas.host.files import read_end
from sangam.schemas.spec.serving import RequestLog
from tests.components.logs.readers.sample_prediction_logs import example, predicted, write
from tests.components.logs.readers.sample_prediction_logs import rows_of as prediction_rows
from tests.components.request_log.sample_requests import rows_of
from tests.components.server.logged_models import EVENT_TIME, READ, put_logged, sealed
from tests.components.server.sample_models import candidates
from tests.components.server.server_process import TIMEOUT_S, Running, b64, refusal, running, wait_until
from tests.errors import tells
from tests.small_disk import fill, small_disk

pytestmark = pytest.mark.slow

VERSION = 20240307001
TOPICS = {"topics": np.array([[3, 4], [5, 0]]), "topics_length": np.array([2, 1])}
SAME = ("request_id", "price", "topics", "served_version", "served_score_like")
"""Columns that Sangam's log and TensorFlow Serving's both have as they were."""
TOLD = {"log/position": np.array([2, 1]), "log/propensity": np.array([0.25, 0.75], np.float32)}


def ask(client: Client, columns: Any, request_id: str) -> str:
    """Sends a request for `rank` with its id; returns the id in the answer."""
    return client.send_as(client.request("rank", columns), TIMEOUT_S, request_id)[1]


def recorded(client: Client, signature: str, columns: Any, request_id: str) -> bytes:
    """Sends a request; returns TensorFlow Serving's record of it and its answer, `rank`'s with the id as an input."""
    request = client.request(signature, columns)
    response, _ = client.send_as(request, TIMEOUT_S, request_id)
    return predicted(request, response, more={"request_id": [request_id.encode()]} if signature == "rank" else {})


def written(server: Running, number: int) -> None:
    wait_until(lambda: server.metric("sangam_request_log_written_total") == number, f"{number} requests are written")


@pytest.fixture
def versions(models: dict[int, Path], scratch: Path) -> Path:
    """A version all of whose requests are logged, users under a hash."""
    put_logged(models[1], scratch / "versions", VERSION, RequestLog(share=1.0, redact={"user": "hash"}))
    (scratch / "key").write_bytes(b"0123456789abcdef\n")
    return scratch / "versions"


def test_a_log_has_what_the_server_saw_and_survives_a_kill(versions: Path, scratch: Path) -> None:
    log, began = scratch / "log", int(time.time())
    options = ("--log", str(log), "--log-key", str(scratch / "key"))
    with running(versions, scratch, *options) as server:
        assert ask(server.client, candidates(2, ["p", "häst"]) | TOPICS | TOLD, "first") == "first"
        row = {"user": "u1", "post": "x", "price": 0.5, "topics": [], "topics_length": 0}
        body = {"signature_name": "rank", "instances": [row | {"log/position": 7, "log/propensity": 0.5}]}
        response = server.post(body)
        assert response.status_code == 200, response.text
        four = example(**{"post id": b"four", "price": 0.5, "topics": [8, 9]})
        examples = {"examples": [b64(four.SerializeToString()), b64(b"")]}
        second = server.post({"inputs": examples}).headers["x-request-id"]
        code, text = refusal(lambda: server.client.predict("rank", candidates(3) | TOLD, TIMEOUT_S))
        assert (code, tells(text, "inputs.log/position", "got 2")) == ("INVALID_ARGUMENT", True)
        four.features.feature["request_id"].bytes_list.value.append(b"named")
        records = [
            recorded(server.client, "rank", candidates(2) | TOPICS, "ranked"),
            recorded(server.client, "serving_default", {"examples": [four.SerializeToString()]}, "named"),
        ]
        written(server, 5)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(TIMEOUT_S)
    assert not sealed(log)
    torn = next((log / ".open").iterdir())
    with torn.open("ab") as file:
        file.write(b"\xff\xff\xff\xff\x10")  # As if it had been killed within a batch.
    other = Folder(log, b"", time.time)
    other.look_after()
    assert (other.counts["recovered"], other.counts["torn"]) == (5, 1)
    assert not list((log / ".open").iterdir())
    rows = rows_of(log, READ)
    rows, both = (
        rows[:-3],
        [{name: row[name] for name in SAME} | {"request_id": row["request_id"].encode()} for row in rows[-3:]],
    )
    read = [column for column in READ if column.name in SAME]
    assert prediction_rows(write(scratch / "tensorflow_serving.gz", records), read) == (both, 0)
    assert [row["request_id"] for row in rows] == ["first"] * 2 + [response.headers["x-request-id"]] + [second] * 2
    assert [row["post id"].decode() for row in rows] == ["p", "häst", "x", "four", ""]
    assert [row["topics"] for row in rows] == [[3, 4], [5], [], [8, 9], []]
    np.testing.assert_array_equal([row["price"] for row in rows], [0, 0, 0.5, 0.5, np.nan])
    assert [row["served_position"] for row in rows] == [2, 1, 7, None, None]
    assert [row["served_propensity"] for row in rows] == [0.25, 0.75, 0.5, None, None]
    # As the model answers: its number, the length of the post's name, price and topics.
    assert [row["served_score_like"] for row in rows] == [1 + 1 + 7, 1 + 5 + 5, 1 + 1 + 0.5, 1 + 0.5, 1]
    assert {row["served_version"] for row in rows} == {VERSION}
    assert all(began <= row["served_at"] == row[EVENT_TIME] <= time.time() for row in rows)
    hashed = {row["user"] for row in rows[:3]}
    assert len(hashed) == 1
    assert len(hashed.pop()) == 32
    assert [row["user"] for row in rows[3:]] == [b"", b""]


def test_a_full_disk_fails_no_request_and_is_counted(versions: Path, scratch: Path) -> None:
    key = ("--log-key", str(scratch / "key"))
    with small_disk(scratch / "log", "64k") as log, running(versions, scratch, "--log", str(log), *key) as server:
        assert ask(server.client, candidates(2), "a") == "a"
        written(server, 1)
        filler, number = fill(log), 0
        while not server.metric("sangam_request_log_dropped_total", reason="disk"):
            assert ask(server.client, candidates(100), f"full-{number}") == f"full-{number}"
            number += 1
        filler.unlink()
        assert ask(server.client, candidates(2), "b" * 129) == "b" * 129
        assert ask(server.client, candidates(2), "c") == "c"
        names = [f"sangam_request_log_{name}_total" for name in ("written", "dropped")]
        wait_until(lambda: sum(map(server.metric, names)) == number + 3, "all are written or dropped")
        assert server.metric("sangam_request_log_chosen_total") == number + 3
        done = server.metric("sangam_request_log_written_total")
        assert server.metric("sangam_request_log_dropped_total", reason="id") == 1
        os.kill(server.process.pid, signal.SIGTERM)
        server.process.wait(TIMEOUT_S)
        assert "request_log=not_written" in read_end(server.log, 10_000)
        ids = [row["request_id"] for row in rows_of(log, READ)]
    assert (ids[:2], ids[-2:], len(set(ids))) == (["a", "a"], ["c", "c"], done)
