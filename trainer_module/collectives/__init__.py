"""Collective operations of a job's ranks. A process has one job, and the job one transport."""

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.collectives.over_horovod import Horovod
from sangam.trainer_module.collectives.over_servers import OverServers, Servers
from sangam.trainer_module.collectives.shared_memory import SharedMemory
from sangam.trainer_module.collectives.transport import Alone, Received, Transport

__all__ = ["MAX_TEXT_BYTES", "Received", "start", "stop"]

MAX_TEXT_BYTES = 1024


class _Job:
    transport: Transport = Alone()


def place() -> tuple[int, int]:
    """Returns (rank, number of ranks) from the environment; joins nothing."""
    return int(os.environ.get("HOROVOD_RANK", "0")), int(os.environ.get("HOROVOD_SIZE", "1"))


def start() -> tuple[int, int]:
    """Joins the job of the environment over Horovod, or runs alone; returns `place`."""
    rank, ranks = place()
    _Job.transport = Horovod() if ranks > 1 else Alone()
    return rank, ranks


def start_over(servers: Servers) -> None:
    """Joins a job whose ranks communicate through its parameter servers."""
    _Job.transport = OverServers(servers)


def share_memory() -> None:
    """Switches the ranks from Horovod to their machine's shared memory. All ranks together.

    Horovod shuts down: otherwise its thread would keep negotiating every millisecond.

    Raises:
        UserError: the ranks are not on one machine.
    """
    rank, ranks = place()
    if ranks > 1:
        horovod, found = _Job.transport, functools.partial(texts, name="shared_memory")
        _Job.transport = SharedMemory(rank=rank, local_rank=horovod.local_rank, texts=found)
        horovod.leave()


def stop() -> None:
    """Leaves the job."""
    _Job.transport.leave()
    _Job.transport = Alone()


def local_rank() -> int:
    """Returns this rank's number on its machine."""
    return _Job.transport.local_rank


def are_apart() -> bool:
    """Returns whether messages take time in which a rank can compute; False within one machine's memory."""
    return _Job.transport.are_apart


def allreduce_sum(tensor: tf.Tensor, *, name: str) -> tf.Tensor:
    """See `Transport`."""
    return _Job.transport.allreduce_sum(tensor, name=name)


def allreduce_max(tensor: tf.Tensor, *, name: str) -> tf.Tensor:
    """See `Transport`."""
    return _Job.transport.allreduce_max(tensor, name=name)


def allgather(own: NDArray[Any], *, name: str) -> NDArray[Any]:
    """See `Transport`."""
    return _Job.transport.allgather(own, name=name)


def send(tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> Callable[[], Received]:
    """See `Transport`."""
    return _Job.transport.send(tensor, splits, name=name)


def send_sum(tensor: tf.Tensor, *, name: str) -> Callable[[], tf.Tensor]:
    """See `Transport`."""
    return _Job.transport.send_sum(tensor, name=name)


def texts(text: str, *, name: str) -> list[str]:
    """Returns every rank's text, cut to `MAX_TEXT_BYTES`, in rank order."""
    encoded = np.frombuffer(text.encode()[:MAX_TEXT_BYTES], np.uint8)
    own = np.pad(encoded, (0, MAX_TEXT_BYTES - len(encoded)))
    return [row.tobytes().rstrip(b"\0").decode(errors="ignore") for row in allgather(own[None], name=name)]


def barrier(*, name: str) -> None:
    """Waits until all ranks have called it."""
    allreduce_sum(tf.zeros([1]), name=name)
