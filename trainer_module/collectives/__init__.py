"""Collective operations of a job's ranks. A process has one job, and the job one transport."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.errors import UserError
from sangam.trainer_module.collectives.gathering import Gathering
from sangam.trainer_module.collectives.over_servers import OverServers, Servers
from sangam.trainer_module.collectives.over_tcp import Tcp
from sangam.trainer_module.collectives.shared_memory import SharedMemory
from sangam.trainer_module.collectives.transport import Alone, Received, Transport

__all__ = ["MAX_TEXT_BYTES", "Received", "start", "stop"]

MAX_TEXT_BYTES = 1024


class _Job:
    transport: Transport = Alone()


def place() -> tuple[int, int]:
    """Returns (rank, number of ranks) from the environment; joins nothing."""
    return int(os.environ.get("HOROVOD_RANK", "0")), int(os.environ.get("HOROVOD_SIZE", "1"))


def ranks_here() -> int:
    """Returns the number of ranks on this machine, from the environment."""
    return int(os.environ.get("HOROVOD_LOCAL_SIZE", "1"))


def start() -> tuple[int, int]:
    """Joins the job of the environment over Horovod, or runs alone; returns `place`.

    Raises:
        UserError: Horovod cannot be imported.
    """
    rank, ranks = place()
    if ranks == 1:
        _Job.transport = Alone()
    else:
        try:
            # Ranks of other transports do not need it installed.
            from sangam.trainer_module.collectives.over_horovod import Horovod
        except ImportError as error:
            raise UserError(
                f"training.sync.transport: Horovod cannot be used (got: {error}); run `sangam setup`, which compiles it"
            ) from error
        _Job.transport = Horovod()
    return rank, ranks


def start_over(servers: Servers) -> None:
    """Joins a job whose ranks communicate through its parameter servers."""
    _Job.transport = OverServers(servers)


def share_memory(folder: Path) -> None:
    """Lets the ranks communicate through their machine's memory. All ranks together.

    Args:
        folder: empty folder that all ranks have been given.

    Raises:
        UserError: a rank's memory cannot be opened.
    """
    rank, ranks = place()
    stop()
    _Job.transport = SharedMemory(rank=rank, texts=Gathering(folder, rank, ranks).texts)


def connect(folder: Path) -> None:
    """Lets the ranks communicate over TCP. All ranks together.

    Args:
        folder: folder of this attempt alone, on storage that all ranks share.

    Raises:
        UserError: another rank cannot be reached.
    """
    rank, ranks = place()
    local_rank = int(os.environ.get("HOROVOD_LOCAL_RANK", str(rank)))
    stop()
    _Job.transport = Tcp(rank=rank, local_rank=local_rank, texts=Gathering(folder, rank, ranks).texts)
    if rank == 0:
        # Every rank has proved to this one that it has read all texts.
        shutil.rmtree(folder, ignore_errors=True)


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


def sums_on_device() -> bool:
    """Returns whether `send_sum` takes an accelerator's tensors without a copy to the host."""
    return _Job.transport.sums_on_device


def waited_s() -> float | None:
    """Returns the seconds that this process has waited for other ranks' messages; None if they are unknown."""
    return _Job.transport.waited_s()


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
