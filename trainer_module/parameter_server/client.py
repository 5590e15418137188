"""A rank's side of the calls to the parameter servers."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.host.environment import NO_HTTP_PROXY
from sangam.trainer_module.checkpoint.files import CheckpointError, DamagedError
from sangam.trainer_module.parameter_server.dense_part import part_of
from sangam.trainer_module.parameter_server.meetings import OPERATIONS, Operation
from sangam.trainer_module.parameter_server.service import CHANNEL_OPTIONS, PATIENCE_S, SERVICE
from sangam.trainer_module.parameter_server.wire import Caller, attempt_number, decode, encode

_LOG = logging.getLogger("sangam.trainer_module.rank")
LOST_AFTER_S = 30.0
_START_S = 120.0
_POLL_S = 0.05
_PAUSE_S = 0.2
_PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    # While a stranger opens more calls than the server takes.
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
}
_OPTIONS = (
    *CHANNEL_OPTIONS,
    NO_HTTP_PROXY,
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.use_local_subchannel_pool", 1),
)
_TOO_LARGE = "larger than max"
"""Part of gRPC's text for a message that is too large, whose code is that of too many calls."""

Arrays = list[NDArray[Any]]


class ServerLostError(RuntimeError):
    """A parameter server does not answer; the attempt ends, and the next one resumes from the last checkpoint."""


class Server:
    """One rank's connection to one server."""

    def __init__(self, number: int, address: str, *, attempt: int, rank: int):
        self.number, self.address = number, address
        self._attempt, self._rank = attempt, rank
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._methods: dict[str, Any] = {}
        self._sequences: dict[str, int] = {}

    def call(self, method: str, arrays: Sequence[NDArray[Any]], *, sequence: int | None = None) -> Arrays:
        """Calls the server, retries failed connections, and returns the answer.

        Args:
            method: a method of `service.Service`.
            arrays: the request.
            sequence: number of the call; None: the method's next.

        Raises:
            ServerLostError: no answer for `LOST_AFTER_S`.
            CheckpointError: the server's checkpoint is damaged or does not fit.
        """
        return self.begin(method, arrays, sequence=sequence).result()

    def begin(
        self,
        method: str,
        arrays: Sequence[NDArray[Any]],
        *,
        sequence: int | None = None,
        limit_s: float | None = PATIENCE_S + LOST_AFTER_S,
    ) -> "Answer":
        """Begins a call; see `call`.

        Args:
            method: see `call`.
            arrays: see `call`.
            sequence: see `call`.
            limit_s: time limit of one try; None: as long as the server lives, for calls that wait for the disk.
        """
        if sequence is None:
            sequence = self._sequences.get(method, 0)
            self._sequences[method] = sequence + 1
        if method not in self._methods:
            self._methods[method] = self._channel.unary_unary(f"/{SERVICE}/{method}")
        message = encode(Caller(self._attempt, self._rank, sequence), arrays)
        return Answer(self, self._methods[method], message, limit_s)

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()


class Answer:
    """The answer to a call under way; the same message is sent again until an answer arrives."""

    def __init__(self, server: Server, method: Any, message: bytes, limit_s: float | None):
        self._server, self._method, self._message, self._limit_s = server, method, message, limit_s
        self._future = self._send()

    def _send(self) -> Any:
        return self._method.future(self._message, timeout=self._limit_s)

    def again(self) -> "Answer":
        """Sends the same message again; returns itself."""
        self._future = self._send()
        return self

    def result(self) -> Arrays:
        """Waits for the answer.

        Raises:
            ServerLostError, CheckpointError: see `Server.call`.
        """
        failing_since: float | None = None
        while True:
            try:
                _, arrays = decode(self._future.result())
                return arrays
            except grpc.RpcError as error:
                if error.code() not in _PASSING or _TOO_LARGE in (error.details() or ""):
                    raise _meant(error) from error
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > LOST_AFTER_S:
                    raise ServerLostError(
                        f"training: parameter server {self._server.number} at {self._server.address} has not answered "
                        f"for {LOST_AFTER_S:.0f} s (got {error.code().name}: {error.details()})"
                    ) from error
                _LOG.warning("parameter server %d: %s; calling again", self._server.number, error.code().name)
            time.sleep(_PAUSE_S)
            self._future = self._send()


def _meant(error: Any) -> Exception:
    """Returns the exception for a server's gRPC status."""
    if error.code() == grpc.StatusCode.DATA_LOSS:
        return DamagedError(error.details())
    if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
        return CheckpointError(error.details())
    return RuntimeError(f"training: a parameter server refused a call ({error.code().name}: {error.details()})")


class Servers:
    """One rank's connections to all servers of an attempt.

    Attributes:
        while_waiting: called every few seconds while this rank waits for slower ranks.
    """

    def __init__(self, addresses: Sequence[str], *, attempt: str, rank: int, ranks: int):
        """Connects to the servers.

        Args:
            addresses: host:port of each server, by number.
            attempt: name of the attempt.
            rank: this rank.
            ranks: number of ranks.
        """
        self.rank, self.ranks = rank, ranks
        number = attempt_number(attempt)
        self.all = [Server(index, address, attempt=number, rank=rank) for index, address in enumerate(addresses)]
        self.while_waiting: Callable[[], None] = lambda: None
        self._rounds: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.all)

    def meet(self, part: NDArray[Any], operation: Operation, name: str) -> NDArray[Any]:
        """Returns the sum (or another operation) of all ranks' parts; see `Meetings.meet`. All ranks together."""
        if self.ranks == 1:
            return part
        return self._finish_meeting(self._begin_meeting(self.all[0], part, operation, name))

    def sum_spread(self, part: NDArray[Any], name: str) -> NDArray[Any]:
        """Returns the sum of all ranks' vectors, of which each server sums a part: [size] to [size].

        Reference: Jiang et al.: A unified architecture for accelerating distributed DNN training (BytePS), OSDI 2020.
        """
        slices = [part_of(len(part), server.number, len(self)) for server in self.all]
        begun = [self._begin_meeting(server, part[s], "sum", name) for server, s in zip(self.all, slices, strict=True)]
        return np.concatenate([self._finish_meeting(meeting) for meeting in begun])

    def _begin_meeting(self, server: Server, part: NDArray[Any], operation: Operation, name: str) -> Answer:
        key = f"{server.number}/{name}"
        number = self._rounds.get(key, 0)
        self._rounds[key] = number + 1
        arrays = [
            np.array([OPERATIONS.index(operation)], np.int64),
            np.frombuffer(name.encode(), np.uint8),
            np.atleast_1d(part),
        ]
        return server.begin("meet", arrays, sequence=number)

    def _finish_meeting(self, answer: Answer) -> NDArray[Any]:
        while not (arrays := answer.result()):
            self.while_waiting()  # Other ranks are not there yet.
            answer.again()
        return arrays[0]

    def ask(self, method: str, document: dict[str, Any], *arrays: NDArray[Any]) -> Sequence[tuple[Any, Arrays]]:
        """Calls a method that takes and returns JSON and arrays on every server; returns the answers by server."""
        begun = [server.begin(method, [_encoded(document), *arrays], limit_s=None) for server in self.all]
        return [_decoded(answer.result()) for answer in begun]

    def tell_parts(self, method: str, document: dict[str, Any], vectors: Sequence[NDArray[Any]]) -> None:
        """Calls a method with JSON and the server's part of each vector, on every server."""
        begun = []
        for server in self.all:
            parts = [vector[part_of(len(vector), server.number, len(self))] for vector in vectors]
            begun.append(server.begin(method, [_encoded(document), *parts], limit_s=None))
        for answer in begun:
            answer.result()

    def close(self) -> None:
        """Closes the connections."""
        for server in self.all:
            server.close()


def _encoded(document: dict[str, Any]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(document).encode(), np.uint8)


def _decoded(arrays: Arrays) -> tuple[Any, Arrays]:
    return (json.loads(arrays[0].tobytes()), arrays[1:]) if arrays else (None, [])


def find_servers(job: TrainJob, attempt: str, *, rank: int, ranks: int) -> Servers:
    """Connects to the servers of an attempt, which write their addresses once they serve.

    Raises:
        ServerLostError: a server has not written its address in 120 s.
    """
    given_up, addresses = time.monotonic() + _START_S, []
    for number in range(job.ranker.num_parameter_servers):
        file: Path = job.server_file(number, attempt)
        while not file.exists():
            if time.monotonic() > given_up:
                raise ServerLostError(f"training: parameter server {number} did not start in {_START_S:.0f} s")
            time.sleep(_POLL_S)
        addresses.append(file.read_text())
    return Servers(addresses, attempt=attempt, rank=rank, ranks=ranks)
