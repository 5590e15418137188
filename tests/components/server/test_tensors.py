"""Answers as messages: what any client of TensorFlow Serving reads."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from sangam.components.server.tensors import unpack, write

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("field", "values", "dtype"),
    [
        ("float_val", [0.5, -1.25, np.inf, 1e-40], np.float32),
        ("double_val", [0.1, -2.0], np.float64),
        ("int64_val", [1, -(2**62)], np.int64),
        ("bool_val", [True, False], np.bool_),
        ("string_val", [b"a", b""], np.object_),
        ("float_val", [], np.float32),
    ],
)
def test_values_lie_in_the_field_of_their_type(field: str, values: list[Any], dtype: type) -> None:
    array = np.array(values, dtype)[:, None]
    written = tensor_pb2.TensorProto()
    write(array, written)
    # Number by number, as the message's own Python does it.
    told = tensor_pb2.TensorProto(dtype=tf.as_dtype(dtype).as_datatype_enum)
    for length in array.shape:
        told.tensor_shape.dim.add().size = length
    getattr(told, field).extend(values)
    assert written.SerializeToString() == told.SerializeToString()
    np.testing.assert_array_equal(unpack(written), array)
    np.testing.assert_array_equal(tf.make_ndarray(written), array)


def test_an_array_in_another_order_of_memory_is_written_row_by_row() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    written = tensor_pb2.TensorProto()
    write(array, written)
    np.testing.assert_array_equal(unpack(written), array)
