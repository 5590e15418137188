"""Collectives through the parameter servers, for ranks without Horovod."""

import os
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.collectives.transport import Received, Transport

Operation = Literal["sum", "max", "rows"]


class Servers(Protocol):
    """A rank's calls to the servers, see `parameter_server.client`."""

    def meet(self, part: NDArray[Any], operation: Operation, name: str) -> NDArray[Any]:
        """Returns the sum, maximum or rows of all ranks' parts."""


class OverServers(Transport):
    """Works outside graphs only. The servers hold the rows: ranks send each other none."""

    are_apart = True

    def __init__(self, servers: Servers):
        """Takes the servers of the job."""
        self._servers = servers
        self.local_rank = int(os.environ.get("HOROVOD_LOCAL_RANK", "0"))

    def allreduce_sum(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """See `Transport`."""
        return self._met(tensor, "sum", name)

    def allreduce_max(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """See `Transport`."""
        return self._met(tensor, "max", name)

    def allgather(self, own: NDArray[Any], *, name: str) -> NDArray[Any]:
        """See `Transport`."""
        return self._servers.meet(own, "rows", name)

    def send(self, tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> Callable[[], Received]:
        """Raises an error: ranks have no rows to send."""
        raise NotImplementedError(f"{name}: ranks with parameter servers send each other no rows")

    def leave(self) -> None:
        """See `Transport`; the job closes its connections."""

    def _met(self, tensor: tf.Tensor, operation: Operation, name: str) -> tf.Tensor:
        part = np.asarray(tensor)
        return tf.constant(self._servers.meet(part.reshape(-1), operation, name).reshape(part.shape))
