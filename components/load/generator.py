"""Runs a load: connect, ask for the signature, make requests, send them, count."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sangam.components.load.arrivals import arrivals
from sangam.components.load.offering import offer
from sangam.components.load.recorded import read_requests
from sangam.components.load.results import Result, result_of
from sangam.components.load.signature import (
    Arrays,
    check_once,
    inputs_of,
    num_candidates,
    random_request,
    resized,
)
from sangam.schemas.errors import UserError

CANDIDATES = 200
_NUM_REQUESTS = 64
"""Different requests, sent in turn."""
_GRPC = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:/\s]+):\d{1,5}")
_REST = re.compile(r"https?://(\[[0-9a-fA-F:]+\]|[^:/\s]+)(:\d{1,5})?/?")


@dataclass(frozen=True)
class Load:
    """A load.

    Attributes:
        address: host:port of gRPC, or http://host:port of REST.
        rate: requests a second.
        seconds: duration of the arrivals.
        deadline_s: from a request's time to its answer.
        connections: over gRPC all are used in turn; over REST a request waits for a free one.
        candidates: of a request; None: as in the file, or 200.
        once: columns with one row for all candidates.
        requests: file with requests; None: random values.
        name: name of the model; empty: the served one's.
        evenly: whether requests come at equal gaps.
        seed: of the values and the times.
    """

    address: str
    rate: float
    seconds: float
    deadline_s: float
    connections: int
    candidates: int | None = None
    once: tuple[str, ...] = ()
    requests: Path | None = None
    name: str = ""
    evenly: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if not (_GRPC.fullmatch(self.address) or _REST.fullmatch(self.address)):
            raise UserError(
                f"ADDRESS: is none (got {self.address}); give host:port of gRPC, such as 127.0.0.1:8500, or "
                "http://host:port of REST, such as http://127.0.0.1:8501"
            )


def run(load: Load) -> Result:
    """Sends a load to a server, and returns what became of it.

    Raises:
        UserError: the server cannot be asked, or the requests do not fit its model.
    """
    return asyncio.run(_run(load))


async def _run(load: Load) -> Result:
    async with _connect(load) as server:
        requests = _requests(load, await server.metadata())
        messages = [server.message(arrays) for arrays in requests]
        times = arrivals(load.rate, load.seconds, seed=load.seed, evenly=load.evenly)
        sent = await offer(server, messages, times, load.deadline_s)
    mean = sum(num_candidates([each]) for each in requests) / len(requests)
    return result_of(sent, seconds=load.seconds, candidates=mean)


def _connect(load: Load) -> AbstractAsyncContextManager[Any]:
    if _REST.fullmatch(load.address):
        from sangam.components.load import over_rest

        return over_rest.connect(load.address.rstrip("/"), load.name, load.connections)
    from sangam.components.load import over_grpc

    return over_grpc.connect(load.address, load.name, load.connections)


def _requests(load: Load, metadata: Any) -> Sequence[Arrays]:
    inputs = inputs_of(metadata)
    check_once(inputs, load.once)
    seeds = range(load.seed, load.seed + _NUM_REQUESTS)
    if load.requests is None:
        count = load.candidates or CANDIDATES
        return [random_request(inputs, once=load.once, candidates=count, seed=seed) for seed in seeds]
    read = read_requests(load.requests, inputs)
    if load.candidates is None and not load.once:
        return read
    return [
        resized(each, once=load.once, candidates=load.candidates or num_candidates([each]), seed=seed)
        for seed, each in zip(seeds, [*read] * _NUM_REQUESTS, strict=False)
    ]
