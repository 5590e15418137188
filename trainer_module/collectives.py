"""Collective operations of a job's ranks. Within a rank, the only module that imports Horovod."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

MAX_TEXT_BYTES = 1024


def start() -> tuple[int, int]:
    """Joins the job that the environment names, or runs alone; returns (rank, number of ranks)."""
    hvd.init()
    return hvd.rank(), hvd.size()


def local_rank() -> int:
    """Returns this rank's number on its machine."""
    return int(hvd.local_rank())


def stop() -> None:
    """Leaves the job."""
    hvd.shutdown()


def allreduce_sum(tensor: tf.Tensor, *, name: str) -> tf.Tensor:
    """Returns the sum over the ranks. Equal shapes on all ranks; `name` has one call in flight at a time."""
    return tensor if hvd.size() == 1 else hvd.allreduce(tensor, op=hvd.Sum, name=name)


def allreduce_max(tensor: tf.Tensor, *, name: str) -> tf.Tensor:
    """Returns the largest over the ranks, element by element."""
    return tensor if hvd.size() == 1 else hvd.allreduce(tensor, op=hvd.Max, name=name)


def alltoall(tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Sends the first splits[0] rows to rank 0, the next splits[1] to rank 1, and so on.

    Returns:
        The rows received, in the order of the sending ranks, and how many came from each: [ranks] int32.
    """
    if hvd.size() == 1:
        return tensor, splits
    received, received_splits = hvd.alltoall(tensor, splits=splits, name=name)
    return received, received_splits


def texts(text: str, *, name: str) -> list[str]:
    """Returns every rank's text, cut to `MAX_TEXT_BYTES`, in the order of the ranks."""
    own = np.zeros([hvd.size(), MAX_TEXT_BYTES], np.uint8)
    encoded = text.encode()[:MAX_TEXT_BYTES]
    own[hvd.rank(), : len(encoded)] = np.frombuffer(encoded, np.uint8)
    said = allreduce_sum(tf.constant(own), name=name).numpy()
    return [row.tobytes().rstrip(b"\0").decode(errors="ignore") for row in said]


def barrier(*, name: str) -> None:
    """Waits until all ranks have called it."""
    allreduce_sum(tf.zeros([1]), name=name)
