"""A rank's side of the calls to the parameter servers."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.parameter_server.calls import METHODS, NUM_LANES, lane_of
from sangam.trainer_module.parameter_server.dense_part import part_of
from sangam.trainer_module.parameter_server.lane import Arrays, Call, Lane, ServerLostError
from sangam.trainer_module.parameter_server.meetings import OPERATIONS, Operation
from sangam.trainer_module.parameter_server.wire import Caller, attempt_number

_START_S = 120.0
_POLL_S = 0.05


class Server:
    """One rank's connections to one server."""

    def __init__(self, number: int, address: str, *, attempt: int, rank: int):
        self.number, self.address = number, address
        self._attempt, self._rank = attempt, rank
        self._lanes = [
            Lane(lane, number, address, attempt=attempt, rank=rank, reads_ahead=lane == lane_of("pull"))
            for lane in range(NUM_LANES)
        ]
        self._lane_of = {method: self._lanes[lane_of(method)] for method in METHODS}
        self._sequences: dict[str, int] = {}

    def begin(self, method: str, arrays: Sequence[NDArray[Any]], *, sequence: int | None = None) -> Call:
        """Begins a call, which is sent again, with the same numbers, until it is answered.

        Args:
            method: a method of `service.Service`.
            arrays: the request; not to be changed before the call is answered.
            sequence: number of the call; None: the method's next.
        """
        if sequence is None:
            sequence = self._sequences.get(method, 0)
            self._sequences[method] = sequence + 1
        lane = self._lane_of[method]
        call = Call(lane, method, Caller(self._attempt, self._rank, sequence), arrays)
        lane.add(call)
        return call

    def close(self) -> None:
        """Closes the connections; calls under way fail."""
        for lane in self._lanes:
            lane.close()


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

    def _begin_meeting(self, server: Server, part: NDArray[Any], operation: Operation, name: str) -> Call:
        key = f"{server.number}/{name}"
        number = self._rounds.get(key, 0)
        self._rounds[key] = number + 1
        arrays = [
            np.array([OPERATIONS.index(operation)], np.int64),
            np.frombuffer(name.encode(), np.uint8),
            np.atleast_1d(part),
        ]
        return server.begin("meet", arrays, sequence=number)

    def _finish_meeting(self, answer: Call) -> NDArray[Any]:
        while not (arrays := answer.result()):
            self.while_waiting()  # Other ranks are not there yet.
            answer.again()
        return arrays[0]

    def ask(self, method: str, document: dict[str, Any], *arrays: NDArray[Any]) -> Sequence[tuple[Any, Arrays]]:
        """Calls a method that takes and returns JSON and arrays on every server; returns the answers by server."""
        begun = [server.begin(method, [_encoded(document), *arrays]) for server in self.all]
        return [_decoded(answer.result()) for answer in begun]

    def tell_parts(self, method: str, document: dict[str, Any], vectors: Sequence[NDArray[Any]]) -> None:
        """Calls a method with JSON and the server's part of each vector, on every server."""
        begun = []
        for server in self.all:
            parts = [vector[part_of(len(vector), server.number, len(self))] for vector in vectors]
            begun.append(server.begin(method, [_encoded(document), *parts]))
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
