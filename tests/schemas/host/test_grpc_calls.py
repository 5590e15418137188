"""Calls without a message, and streams, of every kind of method do not lock out others."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from sangam.schemas.host import grpc_calls
from sangam.schemas.host.grpc_calls import BoundedCalls
from tests.errors import tells

KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream", "watch")
THREADS, MOST = 12, 4


def _handlers() -> dict[str, grpc.RpcMethodHandler]:
    def watch(request: Any, context: Any, send_response_callback: Any) -> None:
        del context
        send_response_callback(request)

    watch.experimental_non_blocking = True  # type: ignore[attr-defined]
    forms = {"request_deserializer": StringValue.FromString, "response_serializer": StringValue.SerializeToString}
    return {
        "unary_unary": grpc.unary_unary_rpc_method_handler(lambda request, _: request, **forms),
        "unary_stream": grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request]), **forms),
        "stream_unary": grpc.stream_unary_rpc_method_handler(lambda requests, _: list(requests)[-1], **forms),
        "stream_stream": grpc.stream_stream_rpc_method_handler(lambda requests, _: requests, **forms),
        "watch": grpc.unary_stream_rpc_method_handler(watch, **forms),
    }


@contextmanager
def served(**limits: Any) -> Iterator[str]:
    """Serves one method of each kind, with few threads."""
    server = grpc.server(
        ThreadPoolExecutor(THREADS), interceptors=[BoundedCalls(**limits)], maximum_concurrent_rpcs=THREADS
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("kinds", _handlers())])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def silent(address: str, kind: str, number: int, begun: bytes | None = None) -> Iterator[list[Any]]:
    """Opens calls that send nothing, or one message, and stay open."""
    ended = threading.Event()

    def messages() -> Iterator[bytes]:
        if begun is not None:
            yield begun
        ended.wait(300)

    with grpc.insecure_channel(address) as channel:
        open_call = channel.stream_stream(f"/kinds/{kind}")
        calls = [open_call(messages()) for _ in range(number)]
        yield calls
        ended.set()
        for call in calls:
            call.cancel()


def _soon(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_calls, "_SWEEP_S", 0.05)
    monkeypatch.setattr(grpc_calls, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(grpc_calls, "_MAX_WATCHES", 4)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("begun", [None, b""], ids=["no message", "one message"])
@pytest.mark.parametrize("kind", KINDS)
def test_calls_that_stay_open_do_not_hold_up_others(kind: str, begun: bytes | None) -> None:
    dropped: list[None] = []
    limits = {"max_waiting": MOST, "timeout_s": 30.0, "dropped": lambda: dropped.append(None)}
    with (
        served(**limits) as address,
        silent(address, kind, 3 * THREADS, begun),
        grpc.insecure_channel(address) as channel,
    ):
        ask = channel.unary_unary("/kinds/unary_unary")
        sent = StringValue(value="x").SerializeToString()

        def is_answered() -> bool:
            try:
                return bool(ask(sent, timeout=5) == sent)
            except grpc.RpcError:
                return False

        is_ended_by_itself = begun is not None and kind.startswith("unary")
        _soon(lambda: is_ended_by_itself or bool(dropped))
        _soon(is_answered)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("kind", KINDS[:4])
def test_one_call_that_stays_open_is_ended_in_time(kind: str) -> None:
    with served(max_waiting=MOST, timeout_s=0.2) as address, silent(address, kind, 1) as [call]:
        _soon(call.done)
        assert call.code() == grpc.StatusCode.CANCELLED


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_method_is_answered(kind: str) -> None:
    sent = StringValue(value="x").SerializeToString()
    with served(max_waiting=MOST, timeout_s=30.0) as address, grpc.insecure_channel(address) as channel:
        assert next(channel.stream_stream(f"/kinds/{kind}")(iter([sent]), timeout=60)) == sent


@pytest.mark.parametrize("kind", KINDS)
def test_an_invalid_message_is_the_clients_mistake(kind: str) -> None:
    with (
        served(max_waiting=MOST, timeout_s=30.0) as address,
        grpc.insecure_channel(address) as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        list(channel.stream_stream(f"/kinds/{kind}")(iter([b"\xff\xff"]), timeout=60))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert tells(refused.value.details(), "message", "(got 2 bytes: ")
