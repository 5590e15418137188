"""Requests that are small for what they ask: memory, log and calls stay bounded, and memory comes back."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import psutil
import pytest
from grpc_health.v1 import health_pb2
from tensorflow_serving.apis import predict_pb2

from tests.components.server.sample_models import NAME, candidates, scores
from tests.components.server.server_process import Running, is_answered, refusal, running, wait_until
from tests.errors import tells

pytestmark = pytest.mark.slow

MIB = 2**20
BODY_BYTES = 15 * MIB
MOST_MIB = 500
"""All requests together may take 256 MiB; the bodies that arrive, 128 MiB."""


@pytest.fixture(scope="module")
def attacked(models: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with the limits that it has by default."""
    with running(models[1], tmp_path_factory.mktemp("attacked")) as found:
        yield found


def _body(value: bytes, num_bytes: int = BODY_BYTES) -> bytes:
    return b'{"inputs": {"user": [' + b",".join([value] * (num_bytes // (len(value) + 1))) + b"]}}"


@pytest.fixture(scope="module")
def calm_mib(attacked: Running) -> float:
    """The server's memory before the first attack."""
    return _memory_mib(attacked)


def _memory_mib(server: Running) -> float:
    return psutil.Process(server.process.pid).memory_info().rss / MIB


def _peak_mib(server: Running, ask: Callable[[], Any]) -> float:
    """Returns by how much memory grows at most while eight ask at once."""
    peak = before = _memory_mib(server)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        while not all(answer.done() for answer in asked):
            peak = max(peak, _memory_mib(server))
            time.sleep(0.01)
        for answer in asked:
            answer.result()
    return peak - before


@pytest.mark.parametrize("value", [b"[]", b"[[]]", b"{}", b'{"a":1}', b'"ab"', b"1", b"1.5"])
def test_many_values_in_few_bytes_take_bounded_memory(attacked: Running, calm_mib: float, value: bytes) -> None:
    body = _body(value)

    def ask() -> None:
        answer = attacked.post(body)
        assert answer.status_code in (400, 413, 429), answer.text[:200]

    assert _peak_mib(attacked, ask) < MOST_MIB
    # However many attacks there were before this one.
    wait_until(lambda: _memory_mib(attacked) < calm_mib + 100, "memory comes back")


def test_a_body_with_more_values_than_memory_is_told(attacked: Running) -> None:
    answer = attacked.post(_body(b"[]", 8 * MIB))
    assert answer.status_code == 413
    assert tells(answer.json()["error"], "message", "(got about ... bytes ... --max-message-bytes")


def test_a_long_string_among_numbers_takes_no_memory(attacked: Running) -> None:
    body = b'{"signature_name": "slow", "inputs": {"seconds": ["' + b"x" * MIB + b'"' + b',""' * 3000 + b"]}}"
    assert _peak_mib(attacked, lambda: attacked.post(body)) < MOST_MIB
    assert attacked.post(body).status_code == 400


def test_a_message_of_empty_dimensions_takes_bounded_memory(attacked: Running, calm_mib: float) -> None:
    dims = b"\x12\x00" * (2 * MIB)
    raw = _field(2, _field(1, b"user") + _field(2, _field(2, dims)))

    def ask() -> None:
        with grpc.insecure_channel(attacked.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
            assert refusal(lambda: call(raw, timeout=60))[0] in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")

    # Those that are parsed and freed, one after another.
    assert _peak_mib(attacked, ask) < MOST_MIB + 700
    wait_until(lambda: _memory_mib(attacked) < calm_mib + 250, "memory comes back")


def _field(number: int, payload: bytes) -> bytes:
    left, length = len(payload), b""
    while left >= 128:
        length, left = length + bytes([left % 128 | 128]), left // 128
    return bytes([number << 3 | 2]) + length + bytes([left]) + payload


def test_a_large_request_is_answered(attacked: Running) -> None:
    rows = 10_000
    columns = {
        "user": ["u1"],
        "post": ["p0"] * rows,
        "price": [0.5] * rows,
        "topics": [list(range(100, 140))] * rows,
        "topics_length": [40] * rows,
    }
    answer = attacked.post({"signature_name": "rank", "inputs": columns})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["outputs"]["like"]) == rows


@pytest.mark.parametrize("levels", [40, 190, 600, 5000])
@pytest.mark.parametrize("column", ["user", "price"])
def test_deep_lists_are_one_line_of_the_client(attacked: Running, levels: int, column: str) -> None:
    before = attacked.log.stat().st_size
    row = {"user": '["u"]', "post": '["p"]', "price": "[0.5]", "topics": "[[1]]", "topics_length": "[1]"}
    row[column] = "[" * levels + "1" + "]" * levels
    inputs = ", ".join(f'"{name}": {value}' for name, value in row.items())
    answer = attacked.post(f'{{"signature_name": "rank", "inputs": {{{inputs}}}}}'.encode())
    assert answer.status_code == 400
    assert len(answer.text) < 2000
    assert attacked.log.stat().st_size - before < 1000


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances": ["\\ud800"]}',
        b'{"inputs": {"\\udfff": [1]}}',
        b'{"signature_name": "\\ud800", "instances": []}',
        b'{"signature_name": ' + b"[" * 150 + b"]" * 150 + b', "instances": []}',
        b'{"instances": [' + b"9" * 4300 + b'], "signature_name": "slow"}',
        b'{"' + b"n" * 100_000 + b'": 1}',
    ],
    ids=["value", "name", "signature", "nested signature", "digits", "long name"],
)
def test_odd_texts_are_the_clients_mistake(attacked: Running, body: bytes) -> None:
    answer = attacked.post(body)
    assert answer.status_code == 400
    assert len(answer.text) < 5000


def test_a_client_that_errs_for_ever_fills_no_disk(attacked: Running) -> None:
    before = attacked.log.stat().st_size
    with httpx.Client(base_url=attacked.rest) as client:
        for number in range(100):
            body = b"{" * (1 + number % 3)
            assert client.post(f"/v1/models/{NAME}:predict", content=body).status_code == 400
    assert attacked.log.stat().st_size - before < 2000
    assert attacked.metric("sangam_requests_total", api="rest", code="INVALID_ARGUMENT") >= 100


def test_a_long_name_is_told_over_grpc(attacked: Running) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "n" * 100_000
    code, text = refusal(lambda: attacked.client.send(request, 60))
    assert code == "NOT_FOUND"
    assert len(text) < 2000


@pytest.mark.parametrize("begun", [True, False], ids=["with a message", "without"])
@pytest.mark.parametrize(
    "method", ["grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "grpc.health.v1.Health/Watch"]
)
def test_open_streams_do_not_lock_out_requests(attacked: Running, method: str, begun: bool) -> None:
    ended = threading.Event()

    def messages() -> Iterator[bytes]:
        if begun:
            yield health_pb2.HealthCheckRequest().SerializeToString()
        ended.wait(600)

    with grpc.insecure_channel(attacked.grpc) as channel:
        stream = channel.stream_stream(f"/{method}")
        calls = [stream(messages()) for _ in range(200)]
        time.sleep(0.5)
        wait_until(lambda: is_answered(attacked), "a request is answered beside them", 60)
        for _ in range(10):
            found = attacked.client.predict("rank", candidates(2), 60)["like"]
            np.testing.assert_array_equal(found, scores(1, 2))
        for call in calls:
            call.cancel()
        ended.set()


def test_services_that_do_not_exist_cannot_be_watched(attacked: Running) -> None:
    request = health_pb2.HealthCheckRequest(service="x" * 1000).SerializeToString()
    with grpc.insecure_channel(attacked.grpc) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        code, text = refusal(lambda: list(watch(request, timeout=60)))
    assert code == "NOT_FOUND"
    assert tells(text, "service", "(got 'xxx")
