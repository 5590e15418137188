"""The protocol of communication between a job's ranks, and its implementation for a single rank."""

from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf
from numpy.typing import NDArray

Received = tuple[tf.Tensor, tf.Tensor]
"""The ranks' elements in rank order: [n]; and the number from each rank: [ranks] int32."""


class Transport(Protocol):
    """A process's connection to the other ranks. All ranks call each method together.

    Attributes:
        local_rank: this rank's number on its machine.
        are_apart: whether messages take time in which a rank can compute.
        sums_on_device: whether `send_sum` takes tensors of an accelerator without a copy to the host.
    """

    local_rank: int
    are_apart: bool
    sums_on_device: bool = False

    def allreduce_sum(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """Returns the sum over the ranks. Shapes are equal on all ranks; one call per `name` is in flight at a time."""

    def allreduce_max(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """Returns the elementwise maximum over the ranks."""

    def allgather(self, own: NDArray[Any], *, name: str) -> NDArray[Any]:
        """Returns all ranks' rows, concatenated in rank order: [n, k] to [sum of n, k]."""

    def send(self, tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> Callable[[], Received]:
        """Sends the first splits[0] elements to rank 0, the next splits[1] to rank 1, and so on.

        Args:
            tensor: [n].
            splits: [ranks] int32.
            name: name of the channel; one message of it is under way at a time.

        Returns:
            A function that receives this rank's elements. Call it late, to overlap the transfer with computation.
        """

    def send_sum(self, tensor: tf.Tensor, *, name: str) -> Callable[[], tf.Tensor]:
        """Sends a vector to all ranks; returns a function that receives the sum, see `send` and `allreduce_sum`."""
        total = self.allreduce_sum(tensor, name=name)
        return lambda: total

    def waited_s(self) -> float | None:
        """Returns the seconds that this process has waited for messages of other ranks; None if they are unknown."""
        return None

    def leave(self) -> None:
        """Leaves the job."""


class Alone(Transport):
    """A job of one rank."""

    local_rank, are_apart, sums_on_device = 0, False, True

    def allreduce_sum(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """See `Transport`."""
        del name
        return tensor

    allreduce_max = allreduce_sum

    def allgather(self, own: NDArray[Any], *, name: str) -> NDArray[Any]:
        """See `Transport`."""
        del name
        return own

    def send(self, tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> Callable[[], Received]:
        """See `Transport`."""
        del name
        return lambda: (tensor, splits)

    def waited_s(self) -> float:
        """See `Transport`."""
        return 0.0

    def leave(self) -> None:
        """See `Transport`."""
