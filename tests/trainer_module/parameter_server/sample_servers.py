"""Parameter servers in this process, and jobs whose ranks are its threads."""

import gc
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.process_memory import message_bytes
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.loop.training import train
from sangam.trainer_module.parameter_server.client import Servers
from sangam.trainer_module.parameter_server.server import Server
from sangam.trainer_module.parameter_server.service import Service
from sangam.trainer_module.parameter_server.wire import attempt_number
from tests.trainer_module.sample_job import job

MakeService = Callable[[TrainJob, int], Service]


class _OfThread:
    """Collective operations of a process whose threads are ranks."""

    def __init__(self) -> None:
        self._local = threading.local()

    def be(self, servers: Servers) -> None:
        """Makes the calling thread a rank."""
        self._local.servers = servers

    def meet(self, part: NDArray[Any], operation: Any, name: str) -> NDArray[Any]:
        """See `Servers.meet`."""
        met: NDArray[Any] = self._local.servers.meet(part, operation, name)
        return met


def plain(made: TrainJob, server: int) -> Service:
    """Returns a server as a process of its own has it."""
    return Service(made, server=server)


@contextmanager
def serving(made: TrainJob, attempt: str, service_of: MakeService = plain) -> Iterator[tuple[list[Service], list[str]]]:
    """Serves a job; yields the servers and their addresses."""
    spec = made.ranker
    gc.collect()  # Servers of earlier tests are in cycles, and reserve room for their rows.
    services = [service_of(made, number) for number in range(spec.num_parameter_servers)]
    with ExitStack() as stack:
        addresses = []
        for service in services:
            served = Server(
                service.answer,
                attempt=attempt_number(attempt),
                address="127.0.0.1:0",
                ranks=spec.cluster.ranks,
                max_message_bytes=message_bytes(spec),
            )
            stack.callback(served.stop)
            addresses.append(f"127.0.0.1:{served.port}")
        yield services, addresses


def on_ranks(ranks: int, addresses: list[str], attempt: str, function: Callable[[int, Servers], Any]) -> list[Any]:
    """Runs a function on every rank, each a thread; returns what they return.

    Where one fails, the calls of the others are cancelled, as their launcher would end them.
    """
    meeting = _OfThread()
    collectives.start_over(meeting)
    of_ranks = [Servers(addresses, attempt=attempt, rank=rank, ranks=ranks) for rank in range(ranks)]

    def rank_of(rank: int) -> Any:
        meeting.be(of_ranks[rank])
        return function(rank, of_ranks[rank])

    try:
        with ThreadPoolExecutor(ranks) as threads:
            futures = [threads.submit(rank_of, rank) for rank in range(ranks)]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for servers in of_ranks:
                servers.close()
            failed = [future for future in done if future.exception() is not None]
            return [future.result() for future in failed or futures]
    finally:
        collectives.stop()


def made_job(directory: Path, spec: RankerSpec, files: tuple[str, ...], *, base: Path | None = None) -> TrainJob:
    """Returns a job whose folders exist."""
    made = job(directory, spec, files, base=base)
    for folder in (made.log_dir, made.output_dir, made.checkpoint_dir):
        Path(folder).mkdir(parents=True, exist_ok=True)
    return made


def train_served(made: TrainJob, *, attempt: str = "0", service_of: MakeService = plain) -> list[Service]:
    """Trains a job to its end; returns its servers, which have stopped."""
    ranks = made.ranker.cluster.ranks
    with serving(made, attempt, service_of) as (services, addresses):
        on_ranks(
            ranks,
            addresses,
            attempt,
            lambda rank, servers: train(made, "", attempt, rank=rank, ranks=ranks, servers=servers),
        )
    return services


def train_alone(made: TrainJob) -> None:
    """Trains a job of one rank that holds its rows itself, to its end."""
    collectives.start()
    train(made, "", "0", rank=0, ranks=1)


def rows_of(services: list[Service], group: str) -> Mapping[int, bytes]:
    """Returns the bits of all servers' rows of a group by key."""
    found: dict[int, bytes] = {}
    for service in services:
        keys, rows = service.shard.rows.stores[group].contents()
        found |= {int(key): row.tobytes() for key, row in zip(keys, rows, strict=True)}
    return found
