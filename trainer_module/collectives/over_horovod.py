"""Collectives over Horovod, for ranks on any machines. In a rank, the only module that imports it."""

from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.collectives.transport import Received, Transport


class Horovod(Transport):
    """Sums and messages over Gloo rings; of a GPU's tensors over NCCL, where Horovod was built with it."""

    are_apart = True

    def __init__(self) -> None:
        """Joins the job of the environment."""
        hvd.init()
        self.local_rank = hvd.local_rank()
        # Only then has Horovod operations for a GPU.
        self.sums_on_device = bool(hvd.nccl_built())

    def allreduce_sum(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """See `Transport`."""
        return hvd.allreduce(tensor, op=hvd.Sum, name=name)

    def allreduce_max(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """See `Transport`."""
        return hvd.allreduce(tensor, op=hvd.Max, name=name)

    def allgather(self, own: NDArray[Any], *, name: str) -> NDArray[Any]:
        """See `Transport`."""
        gathered: NDArray[Any] = hvd.allgather(tf.constant(own), name=name).numpy()
        return gathered

    def send(self, tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> Callable[[], Received]:
        """See `Transport`."""
        received: Received = hvd.alltoall(tensor, splits=splits, name=name)
        return lambda: received

    def leave(self) -> None:
        """See `Transport`."""
        hvd.shutdown()
