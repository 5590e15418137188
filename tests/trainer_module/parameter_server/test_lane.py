"""Calls over a connection: each is answered, whatever breaks; a mistake is told in words, and no thread is left."""

import random
import socket
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

from sangam.trainer_module.checkpoint.files import CheckpointError, DamagedError
from sangam.trainer_module.parameter_server import lane as lane_module
from sangam.trainer_module.parameter_server import server as server_module
from sangam.trainer_module.parameter_server.calls import HELLO, Status, text_array
from sangam.trainer_module.parameter_server.lane import ServerLostError
from sangam.trainer_module.parameter_server.wire import HEAD, Caller, encode
from tests.trainer_module.parameter_server.sample_lanes import ATTEMPT, echo, lane_to, serving


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "_PAUSE_S", 0.001)
    monkeypatch.setattr(server_module, "_BEAT_S", 0.01)


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_every_call_is_answered_in_order_though_connections_break_before_and_after_it(reads_ahead: bool) -> None:
    draw, seen = random.Random(0), Counter[int]()

    def breaking(method: str, caller: Caller, arrays: list[Any]) -> Any:
        if draw.random() < 0.2:
            raise ConnectionError
        seen[caller.sequence] += 1
        if draw.random() < 0.2:
            raise ConnectionError
        return echo(method, caller, arrays)

    with serving(breaking) as (_, address):
        lane = lane_to(address, reads_ahead=reads_ahead)
        for _ in range(20):
            # More than the buffers of a connection hold, several at a time: nobody waits for the other to read.
            calls = [lane.call("push", [np.full(200_000, number, np.int32)]) for number in range(5)]
            for number, call in enumerate(calls):
                (answered,) = call.result()
                assert answered.tolist() == [number] * 200_000
        lane.lane.close()
    assert sorted(seen) == list(range(100))
    assert max(seen.values()) > 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.REFUSED, RuntimeError),
        (Status.FAILED, RuntimeError),
        (Status.DAMAGED, DamagedError),
        (Status.UNFIT, CheckpointError),
    ],
)
def test_a_failure_is_raised_with_its_reason_and_the_next_call_is_answered(
    status: Status, kind: type[Exception]
) -> None:
    def failing(method: str, caller: Caller, arrays: list[Any]) -> Any:
        return echo(method, caller, arrays) if caller.sequence else (status, [text_array("file x: torn")])

    with serving(failing) as (_, address):
        lane = lane_to(address)
        with pytest.raises(kind, match="file x: torn"):
            lane.call("load", []).result()
        assert lane.call("load", []).result() == []


def test_a_rank_of_another_attempt_is_told_so() -> None:
    with serving(echo) as (_, address), pytest.raises(RuntimeError, match="another attempt"):
        lane_to(address, attempt=ATTEMPT - 1).call("pull", [np.zeros(1000)]).result()


def test_a_call_under_way_is_no_lost_server_and_a_silent_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PATIENCE_S", 0.02)
    heard, answer_from = threading.Semaphore(0), lane_module.Lane._answer_from

    def counted(lane: Any, *given: Any) -> Any:
        answer = answer_from(lane, *given)
        if answer is None:
            heard.release()
        return answer

    def slow(method: str, caller: Caller, arrays: list[Any]) -> Any:
        for _ in range(5):
            assert heard.acquire(timeout=60), "the rank does not hear that its call is under way"
        return echo(method, caller, arrays)

    monkeypatch.setattr(lane_module.Lane, "_answer_from", counted)
    with serving(slow) as (_, address):
        assert lane_to(address).call("load", []).result() == []
    monkeypatch.setattr(lane_module, "PATIENCE_S", 0.1)
    monkeypatch.setattr(lane_module, "LOST_AFTER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        lane = lane_to(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ServerLostError, match="has not answered"):
            lane.call("load", []).result()


def test_a_call_ends_with_its_lane() -> None:
    gone = threading.Event()

    def waiting(method: str, caller: Caller, arrays: list[Any]) -> Any:
        gone.wait(20)
        return echo(method, caller, arrays)

    with serving(waiting) as (_, address):
        for reads_ahead in (False, True):
            lane = lane_to(address, reads_ahead=reads_ahead)
            call = lane.call("meet", [])
            threading.Timer(0.05, lane.lane.close).start()
            with pytest.raises(ServerLostError):
                call.result()
            with pytest.raises(ServerLostError):
                lane.call("meet", [])
        gone.set()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_sent_the_server_lives_and_answers_ranks(seed: int) -> None:
    draw = random.Random(seed)
    hello = b"".join(encode(HELLO, Caller(ATTEMPT, 0, 0), []))
    message = b"".join(encode(0, Caller(ATTEMPT, 0, 0), [np.arange(5), np.ones([3, 2], np.float16)]))
    with serving(echo) as (server, address):
        lane = lane_to(address)
        for _ in range(60):
            sent = bytearray(draw.choice([b"", hello]) + draw.choice([hello, message, message + message]))
            for _ in range(draw.randint(1, 4)):
                sent[draw.randrange(len(sent))] = draw.randrange(256)
            with socket.create_connection(("127.0.0.1", server.port), 5) as stranger:
                stranger.sendall(sent[: draw.randint(1, len(sent))])
                stranger.shutdown(socket.SHUT_WR)
                stranger.settimeout(10)
                read = b""
                while part := stranger.recv(1 << 16):
                    read += part
                # Whole answers, or nothing.
                while read:
                    length = HEAD.unpack(read[: HEAD.size])[-1]
                    assert len(read) >= HEAD.size + length
                    read = read[HEAD.size + length :]
            assert lane.call("push", [np.arange(3)]).result()[0].tolist() == [0, 1, 2]
