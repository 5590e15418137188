"""Between `TensorProto`, the form of tensors in gRPC messages, and tensors: without a loop over rows in Python."""

import math
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework import tensor_pb2

from components.server.refused import invalid
from components.server.signature import Signature

# The field of TensorProto that holds values of a type, as TensorFlow Serving writes answers: readable in grpcurl.
_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int64: "int64_val",
    tf.int32: "int_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}


def to_tensor(signature: Signature, name: str, proto: tensor_pb2.TensorProto, max_bytes: int) -> Any:
    """Returns an input of a request as a tensor of the signature's type and shape.

    Args:
        signature: that the request names.
        name: of the input.
        proto: may hold anything: it comes from outside.
        max_bytes: of the tensor. A message may say "one value, a billion times" in a few bytes.

    Raises:
        Refused: naming the input.
    """
    wanted = signature.inputs[name].dtype
    if proto.dtype != wanted.as_datatype_enum:
        raise invalid(f"inputs.{name}: wrong type (got {_type_name(proto.dtype)}); {wanted.name} is needed")
    if proto.tensor_shape.unknown_rank:
        raise invalid(f"inputs.{name}: no shape (got unknown_rank); give the length of each dimension")
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if any(length < 0 for length in shape):
        raise invalid(f"inputs.{name}: wrong shape (got {shape}); lengths are 0 or more")
    signature.check_shape(name, shape)
    size = math.prod(shape)
    # A string takes as much as a number here; the rest of it is in the message, whose size is limited.
    if size * (8 if wanted == tf.string else wanted.size) > max_bytes:
        raise invalid(f"inputs.{name}: too large (got shape {shape}); a tensor may have {max_bytes} bytes")
    values = _values(name, proto, wanted, size)
    return tf.constant(values, wanted, shape)


def to_proto(array: NDArray[Any]) -> tensor_pb2.TensorProto:
    """Returns an output as TensorFlow Serving writes it: values in the field of their type."""
    dtype = tf.as_dtype(tf.string if array.dtype.kind == "O" else array.dtype)
    proto = _empty(array, dtype)
    if field := _FIELDS.get(dtype):
        getattr(proto, field).extend(array.ravel().tolist())
    else:
        proto.tensor_content = array.tobytes()
    return proto


def packed(array: NDArray[Any]) -> tensor_pb2.TensorProto:
    """Returns an array as a request carries it fastest: its bytes as they are; strings as a list."""
    if array.dtype.kind in "OSU":
        proto = _empty(array, tf.string)
        proto.string_val.extend(tf.compat.as_bytes(value) for value in array.ravel().tolist())
    else:
        proto = _empty(array, tf.as_dtype(array.dtype))
        proto.tensor_content = array.tobytes()
    return proto


def _empty(array: NDArray[Any], dtype: Any) -> tensor_pb2.TensorProto:
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for length in array.shape:
        proto.tensor_shape.dim.add(size=length)
    return proto


def _values(name: str, proto: tensor_pb2.TensorProto, dtype: Any, size: int) -> Any:
    """Returns the values, flat; a message may leave out the end if it is all the same value."""
    if proto.tensor_content:
        if dtype == tf.string or len(proto.tensor_content) != size * dtype.size:
            raise invalid(
                f"inputs.{name}: tensor_content does not fit the shape (got {len(proto.tensor_content)} bytes for "
                f"{size} values of {dtype.name}); {'give string_val' if dtype == tf.string else 'mend the shape'}"
            )
        return np.frombuffer(proto.tensor_content, dtype.as_numpy_dtype)
    if dtype not in _FIELDS:
        if size == 0:
            return np.zeros(0, dtype.as_numpy_dtype)
        raise invalid(f"inputs.{name}: no values (got an empty tensor_content); give {dtype.name} values there")
    given = getattr(proto, _FIELDS[dtype])
    if len(given) > size or (size and not given):
        raise invalid(
            f"inputs.{name}: number of values does not fit the shape (got {len(given)} values for {size} places); "
            f"give {size} in {_FIELDS[dtype]}, or fewer if the last one stands for the rest"
        )
    if dtype == tf.string:
        strings = list(given)
        return strings + strings[-1:] * (size - len(strings))
    values = np.asarray(given, dtype.as_numpy_dtype)
    return values if len(values) == size else np.concatenate([values, np.repeat(values[-1:], size - len(values))])


def _type_name(number: int) -> str:
    try:
        return str(tf.as_dtype(number).name)
    except TypeError:
        return f"DataType {number}"
