"""Requests that never arrive: whoever opens them must not lock out whoever asks."""

import functools
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.components.server.sample_models import NAME, candidates, scores
from tests.components.server.server_process import TIMEOUT_S, Running, is_answered, refusal, running, wait_until
from tests.errors import tells

pytestmark = pytest.mark.slow

PATH = f"/v1/models/{NAME}:predict"
HALF = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode()
ASKED = json.dumps(
    {
        "signature_name": "rank",
        "instances": [{"user": "u1", "post": "p0", "price": 0.5, "topics": [1, 2], "topics_length": 1}],
    }
).encode()


@pytest.fixture(scope="module")
def strict(models: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that gives a request two seconds to arrive."""
    options = ("--rest-timeout-s", "2", "--max-connections", "50", "--max-message-bytes", "100000")
    with running(models[1], tmp_path_factory.mktemp("strict"), *options) as found:
        yield found


def _address(server: Running) -> tuple[str, int]:
    host, port = server.rest.removeprefix("http://").rsplit(":", 1)
    return host, int(port)


@contextmanager
def connections(server: Running, count: int, begun: bytes) -> Iterator[list[socket.socket]]:
    """Opens connections that each send the beginning of a request."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            found.append(stack.enter_context(socket.create_connection(_address(server), TIMEOUT_S)))
            found[-1].sendall(begun)
        yield found


@pytest.mark.parametrize("begun", [HALF, HALF[:30], b""], ids=["half a body", "half a head", "nothing"])
def test_half_open_requests_do_not_hold_up_others(server: Running, begun: bytes) -> None:
    with connections(server, 150, begun):
        connection = http.client.HTTPConnection(*_address(server), timeout=TIMEOUT_S)
        for _ in range(20):
            connection.request("POST", PATH, ASKED)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
        connection.close()
        assert server.served() == f"ready {NAME} 1"
        # None of them was given up, so the others have not waited for their end.
        assert server.metric("sangam_rest_connections") >= 150


def _ended_after(connection: socket.socket, since: float) -> tuple[float, bytes]:
    """Reads until the server closes the connection; returns when that was, and what it said."""
    connection.settimeout(60)
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionResetError:
        pass
    return time.monotonic() - since, said


def test_a_body_that_does_not_come_is_given_up_with_the_reason(strict: Running) -> None:
    since = time.monotonic()
    with connections(strict, 1, HALF) as [connection]:
        took, said = _ended_after(connection, since)
    assert took >= 2
    assert said.startswith(b"HTTP/1.1 408 ")
    assert re.search(rb"body: .*\(got 1 bytes in 2 s\).*--rest-timeout-s", said)
    assert strict.metric("sangam_dropped_connections_total", reason="late_body") >= 1


@pytest.mark.parametrize("begun", [HALF[:30], b""], ids=["half a head", "nothing"])
def test_a_head_that_does_not_come_ends_the_connection(strict: Running, begun: bytes) -> None:
    since = time.monotonic()
    with connections(strict, 1, begun) as [connection]:
        took, said = _ended_after(connection, since)
    assert took >= 2
    assert said == b""


def test_a_connection_that_was_answered_stays_open(strict: Running) -> None:
    connection = http.client.HTTPConnection(*_address(strict), timeout=TIMEOUT_S)
    used = []
    for path in ("/healthz", f"/v1/models/{NAME}"):
        connection.request("GET", path)
        assert connection.getresponse().read()
        used.append(connection.sock)
        time.sleep(2.2)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    assert {connection.sock} == set(used)


def test_thousands_of_half_open_requests_take_neither_places_nor_memory(strict: Running) -> None:
    process = psutil.Process(strict.process.pid)
    before = process.memory_info().rss
    for _ in range(5):
        with connections(strict, 400, HALF):
            assert strict.post(ASKED).status_code == 200
            assert strict.metric("sangam_rest_connections") <= 50
    assert strict.metric("sangam_dropped_connections_total", reason="too_many") >= 1_500
    assert process.memory_info().rss - before < 40 * 2**20


def test_bodies_that_have_not_arrived_have_a_bound_together(strict: Running) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 99000\r\n\r\n".encode()
    with connections(strict, 20, head + b" " * 90_000):
        wait_until(
            lambda: strict.metric("sangam_dropped_connections_total", reason="too_many_bytes") >= 8,
            "the oldest bodies were dropped",
        )
        assert strict.post(ASKED).status_code == 200


def test_calls_without_a_message_do_not_hold_up_others(server: Running) -> None:
    ended = threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(600)
        yield from ()

    with grpc.insecure_channel(server.grpc) as channel:
        silent = channel.stream_unary("/tensorflow.serving.PredictionService/Predict")
        calls = [silent.future(nothing()) for _ in range(200)]
        wait_until(lambda: is_answered(server), "a request is answered beside them", 60)
        for _ in range(20):
            found = server.client.predict("rank", candidates(2), 60)["like"]
            np.testing.assert_array_equal(found, scores(1, 2))
        for call in calls:
            call.cancel()
    ended.set()
    assert "Traceback" not in server.log.read_text()


def test_bytes_that_are_no_message_are_the_clients_mistake(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        for service, method in (("PredictionService", "Predict"), ("ModelService", "GetModelStatus")):
            call: Any = channel.unary_unary(f"/tensorflow.serving.{service}/{method}")
            code, text = refusal(functools.partial(call, b"\xff\xff\xff", timeout=60))
            assert code == "INVALID_ARGUMENT"
            assert tells(text, "message", "(got 3 bytes: ")
    assert server.metric("sangam_requests_total", api="grpc", code="INVALID_ARGUMENT", method="GetModelStatus") == 1


def test_clients_that_leave_are_no_error_of_the_server(strict: Running) -> None:
    slow = json.dumps({"signature_name": "slow", "instances": [0.5]}).encode()
    whole = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(slow)}\r\n\r\n".encode() + slow
    gzip = HALF.replace(b"Host: x", b"Content-Encoding: gzip")
    chunked = HALF[:-1].replace(b"Content-Length: 100", b"Transfer-Encoding: chunked")
    for begun in (HALF, HALF[:30], whole, gzip, chunked + b"5\r\nab", chunked + b"x\r\n"):
        with connections(strict, 3, begun):
            time.sleep(0.1)
    request = strict.client.request("slow", {"seconds": np.array([0.5], np.float32)})
    with grpc.insecure_channel(strict.grpc) as channel:
        call = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict.future(request)
        time.sleep(0.1)
        call.cancel()
    wait_until(lambda: strict.metric("sangam_requests_in_flight") == 0, "nothing runs")
    log = strict.log.read_text()
    assert "Traceback" not in log, log
    assert "ERROR" not in log, log
