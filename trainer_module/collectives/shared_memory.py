"""Messages between the ranks of one machine through shared memory.

Horovod negotiates each message in a thread of its own; here a rank writes its part and reads the others' parts:
`native/shared_memory.cc`. Over loopback this saves the negotiation's latency and a copy each way. Sums have the same
bits: both add in rank order.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.errors import UserError
from sangam.schemas.host.cgroup import usable_cores
from sangam.trainer_module.collectives.transport import Received, Transport
from sangam.trainer_module.native.library import functions, operations

_CHANNELS = ("train_keys", "train_embeddings", "gradients", "dense", "read_keys", "read_embeddings", "other")
"""Kinds of messages; each has one under way at a time."""


class SharedMemory(Transport):
    """Communication between ranks of one machine."""

    are_apart = False

    def __init__(self, *, rank: int, texts: Callable[[str], list[str]]):
        """Connects to the other ranks. All ranks together.

        Args:
            rank: rank of this process.
            texts: returns every rank's text, given this rank's.

        Raises:
            UserError: another rank's memory cannot be opened.
        """
        own = functions().sangam_open()
        if own < 0:
            raise UserError(f"training.sync.transport: no shared memory (got: {os.strerror(-own)}); take horovod")
        said = [text.split() for text in texts(f"{os.getpid()} {own}")]
        self.local_rank, self._ranks = rank, len(said)
        numbers = ctypes.c_int * len(said)
        processes, files = (numbers(*map(int, column)) for column in zip(*said, strict=True))
        unreached = functions().sangam_join(rank, len(said), processes, files, int(usable_cores()))
        if unreached >= 0:
            raise UserError(
                f"training.sync.transport: rank {unreached} does not share its memory with rank {rank} (they need one "
                "user and one view of processes, and there may be 64 of them); take horovod"
            )
        # Report an unreachable rank before others wait for it.
        texts("joined")
        self._last: tuple[Any, tf.Operation] | None = None
        self._waited_ns = functions().sangam_waited_ns
        self._waited_ns.restype = ctypes.c_int64

    def waited_s(self) -> float:
        """See `Transport`."""
        return int(self._waited_ns()) / 1e9

    def leave(self) -> None:
        """See `Transport`; ranks that still wait for this one fail."""
        functions().sangam_leave()

    def allreduce_sum(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """See `Transport`."""
        del name
        return tf.reduce_sum(self._all(tensor), axis=0)

    def allreduce_max(self, tensor: tf.Tensor, *, name: str) -> tf.Tensor:
        """See `Transport`."""
        del name
        return tf.reduce_max(self._all(tensor), axis=0)

    def allgather(self, own: NDArray[Any], *, name: str) -> NDArray[Any]:
        """See `Transport`."""
        del name
        gathered: NDArray[Any] = self._whole(tf.constant(own)).numpy().reshape(-1, own.shape[1])
        return gathered

    def send(self, tensor: tf.Tensor, splits: tf.Tensor, *, name: str) -> Callable[[], Received]:
        """See `Transport`."""
        number = self._post(tensor, splits, name=name)
        return lambda: self._parts(number, tensor.dtype, name=name)

    def send_sum(self, tensor: tf.Tensor, *, name: str) -> Callable[[], tf.Tensor]:
        """See `Transport`."""
        number = self._post(tensor, tf.size(tensor)[None], name=name)
        return lambda: tf.ensure_shape(self._total(number, name=name), tensor.shape)

    def _post(self, tensor: tf.Tensor, counts: tf.Tensor, *, name: str) -> tf.Tensor:
        """Writes a message for the other ranks; returns its number.

        Args:
            tensor: [n], the parts for the ranks, in rank order.
            counts: length of each part: [ranks] int32; or [1]: all ranks read everything.
            name: name of the channel.
        """
        post = operations().sangam_post
        return self._in_order(lambda: post(tensor, counts, channel=_CHANNELS.index(name), name=f"post_{name}"))

    def _parts(self, number: tf.Tensor, dtype: tf.DType, *, name: str) -> Received:
        collect = operations().sangam_collect_parts
        channel = _CHANNELS.index(name)
        received = self._in_order(lambda: collect(number, T=dtype, channel=channel, name=f"collect_{name}"))
        return tf.ensure_shape(received.received, [None]), received.counts

    def _all(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the tensors of all ranks, which have equal shapes: [ranks, ...]."""
        return tf.reshape(self._whole(tensor), [self._ranks, *tensor.shape])

    def _whole(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the elements of all ranks' tensors: [n]."""
        number = self._post(tf.reshape(tensor, [-1]), tf.size(tensor)[None], name="other")
        collect, channel = operations().sangam_collect_all, _CHANNELS.index("other")
        return self._in_order(lambda: collect(number, T=tensor.dtype, channel=channel)).received

    def _total(self, number: tf.Tensor, *, name: str) -> tf.Tensor:
        collect = operations().sangam_collect_sum
        return self._in_order(lambda: collect(number, channel=_CHANNELS.index(name), name=f"collect_{name}"))

    def _in_order(self, call: Callable[[], Any]) -> Any:
        """Creates an operation that runs after the previous one in this graph.

        All ranks build the same graph. One order for all prevents deadlock: no rank waits for a message that another
        rank writes only after reading this one's.
        """
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        before = [self._last[1]] if graph is not None and self._last is not None and self._last[0] is graph else []
        with tf.control_dependencies(before):
            made = call()
        self._last = None if graph is None else (graph, tf.nest.flatten(made)[0].op)
        return made
