"""A server that does not need tables, and ranks' connections to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from sangam.trainer_module.parameter_server.calls import Status, lane_of
from sangam.trainer_module.parameter_server.lane import Call, Lane
from sangam.trainer_module.parameter_server.server import Answer, Server
from sangam.trainer_module.parameter_server.wire import Caller

ATTEMPT = 2**64 - 5
MAX_BYTES = 1_000_000


def echo(method: str, caller: Caller, arrays: list[NDArray[Any]]) -> tuple[Status, Sequence[NDArray[Any]]]:
    """Answers with what was sent."""
    del method, caller
    return Status.DONE, arrays


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[Server, str]]:
    """Serves two ranks; yields the server and its address."""
    server = Server(answer, attempt=ATTEMPT, address="127.0.0.1:0", ranks=2, max_message_bytes=MAX_BYTES)
    try:
        yield server, f"127.0.0.1:{server.port}"
    finally:
        server.stop()


class NumberedLane:
    """A lane whose calls are numbered from 0."""

    def __init__(self, address: str, method: str, attempt: int, *, reads_ahead: bool):
        self.lane = Lane(lane_of(method), 0, address, attempt=attempt, rank=1, reads_ahead=reads_ahead)
        self._attempt, self._sequence = attempt, 0

    def call(self, method: str, arrays: Sequence[NDArray[Any]]) -> Call:
        """Begins a call."""
        call = Call(self.lane, method, Caller(self._attempt, 1, self._sequence), arrays)
        self._sequence += 1
        self.lane.add(call)
        return call


def lane_to(address: str, method: str = "push", *, attempt: int = ATTEMPT, reads_ahead: bool = False) -> NumberedLane:
    """Returns a connection of rank 1."""
    return NumberedLane(address, method, attempt, reads_ahead=reads_ahead)
