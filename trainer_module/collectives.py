"""Collective operations of a job's ranks: over Horovod, or over the parameter servers where there are any.

Within a rank, the only module that imports Horovod.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, Literal, Protocol

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer_module.shared_memory import SharedMemory

MAX_TEXT_BYTES = 1024


class Meeting(Protocol):
    """Another way to meet than Horovod."""

    rank: int
    ranks: int

    def meet(self, part: NDArray[Any], operation: Literal["sum", "max", "rows"], name: str) -> NDArray[Any]:
        """Returns the sum, maximum or rows of all ranks' parts."""


class _Job:
    """The job of this process: a process has one, as it has one Horovod."""

    other: Meeting | None = None
    memory: SharedMemory | None = None
    local_rank = 0


def start() -> tuple[int, int]:
    """Joins the job that the environment names, or runs alone; returns (rank, number of ranks)."""
    hvd.init()
    return hvd.rank(), hvd.size()


def share_memory() -> None:
    """Has the ranks meet through their machine's memory from now on. All ranks together.

    Horovod, by which they have found each other, ends: its thread would go on to negotiate every millisecond.

    Raises:
        UserError: they are not on one machine.
    """
    if hvd.size() > 1:
        memory = SharedMemory(rank=hvd.rank(), texts=functools.partial(texts, name="shared_memory"))
        _Job.local_rank = hvd.local_rank()
        hvd.shutdown()
        _Job.memory = memory


def start_over(meeting: Meeting) -> None:
    """Joins a job whose ranks meet without Horovod."""
    _Job.other = meeting


def place() -> tuple[int, int]:
    """Returns (rank, number of ranks) by the environment; joins nothing."""
    return int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])


def local_rank() -> int:
    """Returns this rank's number on its machine."""
    if _Job.memory is not None:
        return _Job.local_rank
    return int(hvd.local_rank()) if _Job.other is None else int(os.environ["HOROVOD_LOCAL_RANK"])


def stop() -> None:
    """Leaves the job."""
    if _Job.memory is not None:
        _Job.memory.leave()
        _Job.memory = None
    elif _Job.other is None:
        hvd.shutdown()
    _Job.other = None


def are_apart() -> bool:
    """Says whether what a rank sends takes time in which it can compute: not within a machine's memory."""
    return _rank_and_size()[1] > 1 and _Job.memory is None


def _rank_and_size() -> tuple[int, int]:
    other = _Job.other or _Job.memory
    return (hvd.rank(), hvd.size()) if other is None else (other.rank, other.ranks)


def allreduce_sum(tensor: tf.Tensor, *, name: str) -> tf.Tensor:
    """Returns the sum over the ranks. Equal shapes on all ranks; `name` has one call in flight at a time."""
    if _rank_and_size()[1] == 1:
        return tensor
    if _Job.other is not None:
        return _met(_Job.other, tensor, "sum", name)
    if _Job.memory is not None:
        return tf.reduce_sum(_Job.memory.all(tensor), axis=0)
    return hvd.allreduce(tensor, op=hvd.Sum, name=name)


def allreduce_max(tensor: tf.Tensor, *, name: str) -> tf.Tensor:
    """Returns the largest over the ranks, element by element."""
    if _rank_and_size()[1] == 1:
        return tensor
    if _Job.other is not None:
        return _met(_Job.other, tensor, "max", name)
    if _Job.memory is not None:
        return tf.reduce_max(_Job.memory.all(tensor), axis=0)
    return hvd.allreduce(tensor, op=hvd.Max, name=name)


def _met(meeting: Meeting, tensor: tf.Tensor, operation: Literal["sum", "max"], name: str) -> tf.Tensor:
    part = tensor.numpy() if isinstance(tensor, tf.Tensor) else np.asarray(tensor)
    flat = np.ascontiguousarray(part).reshape(-1)
    return tf.constant(meeting.meet(flat, operation, name).reshape(part.shape))


Received = tuple[tf.Tensor, tf.Tensor]
"""What came from the ranks, in their order: [n]; and how much of it from each: [ranks] int32."""


def send(tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> Callable[[], Received]:
    """Sends the first splits[0] elements to rank 0, the next splits[1] to rank 1, and so on. All ranks together.

    Args:
        tensor: [n].
        splits: [ranks] int32.
        name: has one message under way at a time.

    Returns:
        What returns that which the ranks have sent to this one. To call it late gives them time.
    """
    if _rank_and_size()[1] == 1:
        return lambda: (tensor, splits)
    if (memory := _Job.memory) is not None:
        number = memory.post(tensor, splits, name=name)
        return lambda: memory.parts(number, tensor.dtype, name=name)
    received, received_splits = hvd.alltoall(tensor, splits=splits, name=name)
    return lambda: (received, received_splits)


def send_sum(tensor: tf.Tensor, *, name: str) -> Callable[[], tf.Tensor]:
    """Sends a vector to all ranks; returns what returns the sum over the ranks, see `send` and `allreduce_sum`."""
    if (memory := _Job.memory) is not None:
        number = memory.post(tensor, tf.size(tensor)[None], name=name)
        return lambda: tf.ensure_shape(memory.total(number, name=name), tensor.shape)
    total = allreduce_sum(tensor, name=name)
    return lambda: total


def texts(text: str, *, name: str) -> list[str]:
    """Returns every rank's text, cut to `MAX_TEXT_BYTES`, in the order of the ranks."""
    rank, size = _rank_and_size()
    encoded = np.frombuffer(text.encode()[:MAX_TEXT_BYTES], np.uint8)
    if _Job.other is not None:
        said = rows(np.pad(encoded, (0, MAX_TEXT_BYTES - len(encoded)))[None], name=name)
    else:
        own = np.zeros([size, MAX_TEXT_BYTES], np.uint8)
        own[rank, : len(encoded)] = encoded
        said = allreduce_sum(tf.constant(own), name=name).numpy()
    return [row.tobytes().rstrip(b"\0").decode(errors="ignore") for row in said]


def rows(own: NDArray[Any], *, name: str) -> NDArray[Any]:
    """Returns every rank's rows, one rank's after the other's: [n, k] to [sum of n, k]."""
    _, size = _rank_and_size()
    if size == 1:
        return own
    assert _Job.other is not None, "only jobs with parameter servers gather rows"
    return _Job.other.meet(own, "rows", name)


def barrier(*, name: str) -> None:
    """Waits until all ranks have called it."""
    allreduce_sum(tf.zeros([1]), name=name)
