"""Messages that all ranks post and collect in one order, that of the graph: `native/messages.h`.

A rank posts its part and collects the others' parts; nothing is negotiated. Sums add in rank order: all ranks have the
same bits, and any transport gives them.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.collectives.transport import Received, Transport
from sangam.trainer_module.native.library import functions, operations

_CHANNELS = ("train_keys", "train_embeddings", "gradients", "dense", "read_keys", "read_embeddings", "sums", "other")
"""Kinds of messages; each has one under way at a time."""


class InOrder(Transport):
    """Communication by native messages, once a subclass has joined the ranks."""

    def __init__(self, ranks: int):
        """Takes the number of ranks."""
        self._ranks = ranks
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
            counts: length of each part: [ranks] int32; or [1]: all ranks get everything.
            name: name of the channel.
        """
        post = operations().sangam_post
        return self._in_order(lambda: post(tensor, counts, channel=_CHANNELS.index(name), name=f"post_{name}"))

    def _parts(self, number: tf.Tensor, dtype: tf.DType, *, name: str) -> Received:
        collect, channel = operations().sangam_collect, _CHANNELS.index(name)
        received = self._in_order(lambda: collect(number, T=dtype, channel=channel, name=f"collect_{name}"))
        return tf.ensure_shape(received.received, [None]), received.counts

    def _all(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the tensors of all ranks, which have equal shapes: [ranks, ...]."""
        return tf.reshape(self._whole(tensor), [self._ranks, *tensor.shape])

    def _whole(self, tensor: tf.Tensor, *, name: str = "other") -> tf.Tensor:
        """Returns the elements of all ranks' tensors: [n]."""
        number = self._post(tf.reshape(tensor, [-1]), tf.size(tensor)[None], name=name)
        return self._parts(number, tensor.dtype, name=name)[0]

    def _total(self, number: tf.Tensor, *, name: str) -> tf.Tensor:
        """Returns the sum of this rank's parts of a message."""
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
