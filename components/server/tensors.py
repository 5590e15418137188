"""Converts between `TensorProto`, the form of tensors in gRPC messages, and arrays, without loops over rows."""

import functools
import math
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import wrappers_pb2
from numpy.typing import NDArray
from tensorflow.core.framework import tensor_pb2, types_pb2

from sangam.components.server.request_error import invalid
from sangam.components.server.signature import Input

# TensorProto's field for values of a type, which TensorFlow Serving uses in responses: readable in grpcurl.
_FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_BOOL: "bool_val",
    types_pb2.DT_STRING: "string_val",
}
_TAGS = {types_pb2.DT_FLOAT: b"\x2a", types_pb2.DT_DOUBLE: b"\x32"}
"""First bytes on the wire of the fields whose numbers lie there as they do in memory."""
_STRINGS = "OSU"
"""Kinds of NumPy's types that are strings in messages."""


def to_array(expected: Input, proto: tensor_pb2.TensorProto, max_bytes: int) -> NDArray[Any]:
    """Returns an input of a request as an array of the signature's type and shape; it may be read-only.

    Args:
        expected: the input.
        proto: untrusted.
        max_bytes: maximum bytes of the tensor. A message can express "one value, a billion times" in a few bytes.

    Raises:
        RequestError: with the input's name.
    """
    name = expected.name
    if proto.dtype != expected.number:
        raise invalid(f"inputs.{name}: wrong type (got {_type_name(proto.dtype)}); {expected.dtype.name} is needed")
    described = proto.tensor_shape
    if described.unknown_rank:
        raise invalid(f"inputs.{name}: no shape (got unknown_rank); give the length of each dimension")
    shape = [dim.size for dim in described.dim]
    if shape and min(shape) < 0:
        raise invalid(f"inputs.{name}: wrong shape (got {shape}); lengths are 0 or more")
    expected.check_shape(shape)
    size = math.prod(shape)
    if size * expected.value_bytes > max_bytes:
        raise invalid(f"inputs.{name}: too large (got shape {shape}); a tensor may have {max_bytes} bytes")
    values = _values(expected, proto, size, max_bytes)
    return values if len(shape) == 1 else values.reshape(shape)


def write(array: NDArray[Any], proto: tensor_pb2.TensorProto) -> None:
    """Writes an output like TensorFlow Serving: values in the field of their type."""
    _describe(proto, array)
    if tag := _TAGS.get(proto.dtype):
        _merge_numbers(proto, tag, array.tobytes())
    elif field := _FIELDS.get(proto.dtype):
        getattr(proto, field).extend(array.ravel().tolist())
    else:
        proto.tensor_content = array.tobytes()


def _merge_numbers(proto: tensor_pb2.TensorProto, tag: bytes, content: bytes) -> None:
    """Has the message take numbers as it reads them from the wire; to add them one by one takes 200 times as long."""
    proto.MergeFromString(tag + wrappers_pb2.BytesValue(value=content).SerializeToString()[1:] if content else b"")


def pack(array: NDArray[Any], proto: tensor_pb2.TensorProto) -> None:
    """Writes an array into a request in the fastest form: raw bytes, or a list of strings."""
    _describe(proto, array)
    if array.dtype.kind in _STRINGS:
        if array.dtype.kind == "U":
            array = np.char.encode(array)
        values = array.ravel().tolist()
        try:
            proto.string_val.extend(values)
        except TypeError:  # Some are str.
            del proto.string_val[:]
            proto.string_val.extend([tf.compat.as_bytes(value) for value in values])
    else:
        proto.tensor_content = array.tobytes()


def unpack(proto: tensor_pb2.TensorProto) -> NDArray[Any]:
    """Reads the output of `write`; tf.make_ndarray, which reads all forms, takes five times as long."""
    shape, field = [dim.size for dim in proto.tensor_shape.dim], _FIELDS.get(proto.dtype)
    values = list(getattr(proto, field)) if field else []
    if proto.tensor_content or len(values) != math.prod(shape):
        array: NDArray[Any] = tf.make_ndarray(proto)
        return array
    dtype = object if proto.dtype == types_pb2.DT_STRING else tf.as_dtype(proto.dtype).as_numpy_dtype
    return np.array(values, dtype).reshape(shape)


def _describe(proto: tensor_pb2.TensorProto, array: NDArray[Any]) -> None:
    proto.dtype = _number(array.dtype)
    dims = proto.tensor_shape.dim
    for length in array.shape:
        dims.add().size = length


@functools.lru_cache
def _number(dtype: Any) -> int:
    """Returns the number in messages of a type of NumPy's; TensorFlow's own conversion is slow."""
    return int(tf.as_dtype(tf.string if dtype.kind in _STRINGS else dtype).as_datatype_enum)


def _values(expected: Input, proto: tensor_pb2.TensorProto, size: int, max_bytes: int) -> NDArray[Any]:
    """Returns the values, flat; a message may leave out repetitions of the last value."""
    name, dtype = expected.name, expected.numpy_dtype
    if proto.tensor_content:
        size_bytes = len(proto.tensor_content)
        if expected.is_string or size_bytes != size * dtype.itemsize:
            hint = "give string_val" if expected.is_string else "mend the shape"
            raise invalid(
                f"inputs.{name}: tensor_content does not fit the shape (got {size_bytes} bytes for {size} values of "
                f"{expected.dtype.name}); {hint}"
            )
        return np.frombuffer(proto.tensor_content, dtype)
    field = _FIELDS.get(expected.number)
    values = list(getattr(proto, field)) if field else []
    if len(values) == size:
        return np.array(values, dtype)
    if not values or len(values) > size:
        raise invalid(
            f"inputs.{name}: number of values does not fit the shape (got {len(values)} values, for a size of {size}); "
            f"give {size} in {field or 'tensor_content'}, or fewer if the last one is repeated"
        )
    if expected.is_string and len(values[-1]) * (size - len(values)) > max_bytes:
        raise invalid(
            f"inputs.{name}: too large (got a string {size - len(values)} times); give {max_bytes} bytes at most"
        )
    return np.array(values + values[-1:] * (size - len(values)), dtype)


def _type_name(number: int) -> str:
    try:
        return str(tf.as_dtype(number).name)
    except TypeError:
        return f"DataType {number}"
