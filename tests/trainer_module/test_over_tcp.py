"""Ranks connect to those that know their job's secrets, and to nobody else."""

import itertools
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from sangam.schemas.errors import UserError
from sangam.trainer_module.collectives import over_tcp
from tests.errors import tells

pytestmark = pytest.mark.slow

RANKS = 3
KEY = b"of the job"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_MEET_S", 60.0), ("_GREET_S", 0.3), ("_AGAIN_S", 0.01)):
        monkeypatch.setattr(over_tcp, name, seconds)


@pytest.fixture
def listeners() -> Iterator[list[socket.socket]]:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(RANKS)]
    yield made
    for each in made:
        each.close()


def _meet(listeners: list[socket.socket], keys: list[bytes]) -> list[dict[int, socket.socket] | UserError]:
    """Connects ranks that are threads, each with its key; returns what each has of the others, or its error."""
    addresses = [listener.getsockname()[:2] for listener in listeners]
    met: list[dict[int, socket.socket] | UserError] = [{}] * len(keys)

    def rank(number: int) -> None:
        try:
            met[number] = over_tcp._met(listeners[number], keys[number], number, addresses)
        except UserError as error:
            met[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(len(keys))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return met


def test_every_rank_reaches_every_other_whoever_else_connects(listeners: list[socket.socket]) -> None:
    to_first = listeners[0].getsockname()
    with socket.create_connection(to_first), socket.create_connection(to_first) as shouts:  # The first says nothing.
        shouts.sendall(b"GET / HTTP/1.1\r\nHost: a stranger whose request is long enough\r\n\r\n")
        met = _meet(listeners, [KEY] * RANKS)
    connected = [found for found in met if isinstance(found, dict)]
    for rank, found in enumerate(connected):
        assert sorted(found) == [other for other in range(RANKS) if other != rank]
        for other, connection in found.items():
            connection.sendall(bytes([rank, other]))
    assert len(connected) == RANKS
    for rank, found in enumerate(connected):
        for other, connection in found.items():
            assert connection.recv(2) == bytes([other, rank])
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            connection.close()


def test_who_does_not_know_the_secrets_is_no_rank(
    listeners: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("_MEET_S", -1.0), ("_GREET_S", 60.0)):  # One attempt, which takes what it takes.
        monkeypatch.setattr(over_tcp, name, seconds)
    own, stranger = _meet(listeners[:2], [KEY, b"a guess"])
    assert tells(str(own), "training.sync.transport", "ranks 1 ... tcp ... got: ")
    assert tells(str(stranger), "training.sync.transport", "ranks 0 ... no rank of this job")


def test_a_refusal_is_told_also_when_the_last_attempt_fails_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=itertools.count().__next__, sleep=lambda _: None)
    monkeypatch.setattr(over_tcp, "time", clock)
    errors = iter([ConnectionRefusedError("no rank of this job"), TimeoutError("timed out")])

    def attempt() -> None:
        raise next(errors)

    with pytest.raises(UserError) as told:
        over_tcp._tried_until(0, attempt, [0])
    assert tells(str(told.value), "training.sync.transport", "(got: no rank of this job, timed out)")
