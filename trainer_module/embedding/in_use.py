"""Reads the part of a store's variables that belongs to keys: from row 1 to the end in use."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

_COPIED_BYTES = 64 << 20
"""Of a device's memory at once: a copy of all rows would take it twice."""


def copy_of(variable: tf.Variable, end: int, columns: slice, device: str | None) -> NDArray[Any]:
    """Returns a copy.

    Args:
        variable: [any] or [any, width].
        end: end of the part in use.
        columns: columns of [any, width].
        device: device of the variable; None: the host.
    """
    if device is not None:
        width = len(range(variable.shape[1])[columns])
        copy = np.empty([end - 1, width], variable.dtype.as_numpy_dtype)
        _from_device(variable, end, columns, device, copy)
        return copy
    whole = _whole(variable)
    if columns != slice(None):
        return np.asarray(whole[1:end, columns])
    # A slice of whole rows may share their memory; the next step's write would then copy the whole variable.
    # `numpy()` would copy once more.
    return np.asarray(tf.gather(whole, tf.range(1, end, dtype=tf.int64)))


def copy_into(variable: tf.Variable, end: int, device: str | None, take: Callable[..., NDArray[Any]]) -> NDArray[Any]:
    """Returns a copy in memory from `take(shape, type, room=rows)`; see `copy_of`."""
    room = int(tf.raw_ops.VariableShape(input=variable.handle)[0])
    copy = take((end - 1, *variable.shape[1:]), variable.dtype.as_numpy_dtype, room=room)
    if device is not None:
        _from_device(variable, end, slice(None), device, copy)
    else:
        np.copyto(copy, np.asarray(_whole(variable))[1:end])
    return copy


def _from_device(variable: tf.Variable, end: int, columns: slice, device: str, copy: NDArray[Any]) -> None:
    step = max(1, _COPIED_BYTES // (4 * variable.shape[1]))
    with tf.device(device):
        whole = _whole(variable)
        for start in range(1, end, step):
            part = whole[start : min(start + step, end), columns].numpy()
            copy[start - 1 : start - 1 + len(part)] = part


def _whole(variable: tf.Variable) -> tf.Tensor:
    """Returns a variable with its unused room, without a copy; hold it briefly."""
    # After a scatter an ordinary read copies the whole variable, unused room included.
    tf.raw_ops.DisableCopyOnRead(resource=variable.handle)
    return variable.read_value()
