"""Reads the part of a store's variables that belongs to keys: from row 1 to the end in use."""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.native.library import operations

_COPIED_BYTES = 64 << 20
"""Of a device's memory at once: a copy of all rows would take it twice."""


def copy_of(variable: tf.Variable, end: int) -> NDArray[Any]:
    """Returns a copy of a variable of the host, [any] or [any, width].

    If its value were read while a cut refers to it, the next scatter would copy all of it, unused room included.

    Args:
        variable: variable of the host.
        end: end of the part in use.
    """
    part = operations().sangam_copy_rows(variable.handle, tf.constant(end, tf.int64), N=variable.dtype)
    copied = np.asarray(part)  # `numpy()` would copy once more.
    return copied.reshape(-1, *variable.shape[1:])


def copy_from_device(variable: tf.Variable, end: int, device: str) -> NDArray[Any]:
    """Returns a copy of a device's variable, [any, width].

    Args:
        variable: variable of the device.
        end: end of the part in use.
        device: device of the variable.
    """
    copy = np.empty([end - 1, variable.shape[1]], variable.dtype.as_numpy_dtype)
    step = max(1, _COPIED_BYTES // (4 * variable.shape[1]))
    with tf.device(device):
        # After a scatter an ordinary read copies the whole variable, unused room included.
        tf.raw_ops.DisableCopyOnRead(resource=variable.handle)
        whole = variable.read_value()
        for start in range(1, end, step):
            part = whole[start : min(start + step, end)].numpy()
            copy[start - 1 : start - 1 + len(part)] = part
    return copy
