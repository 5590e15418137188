"""Messages between ranks and servers: the caller's identity, and arrays as raw bytes.

    magic, number of arrays, attempt, rank, sequence number
    for each array: dtype, number of dimensions, dimensions
    the bytes of the arrays, each aligned to 8 bytes

Arrays are copied once, into the message; the receiver reads them in place.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_ARRAYS = 4096
_MAGIC = 0x53_47_50_31
_HEAD = struct.Struct("<IIQqq")
_ARRAY = struct.Struct("<BB")
_DIMENSION = struct.Struct("<q")
_DTYPES = tuple(map(np.dtype, ("<i8", "<i4", "<f4", "<f2", "<f8", "|u1")))
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_MAX_DIMENSIONS = 2
_ALIGNMENT = 8


class MessageError(ValueError):
    """An invalid or unexpected message."""


class Caller(NamedTuple):
    """Identifies a call; a repeated call has the same three numbers.

    Attributes:
        attempt: the attempt of the job, see `attempt_number`.
        rank: the calling rank.
        sequence: number of the call, from 0, per kind of call.
    """

    attempt: int
    rank: int
    sequence: int


def attempt_number(label: str) -> int:
    """Returns a 64-bit hash of an attempt's name; a server answers only ranks of its own attempt."""
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")


def encode(caller: Caller, arrays: Sequence[NDArray[Any]]) -> bytes:
    """Returns a message."""
    parts: list[Any] = [_HEAD.pack(_MAGIC, len(arrays), *caller)]
    for array in arrays:
        parts.append(_ARRAY.pack(_CODES[array.dtype], array.ndim))
        parts += [_DIMENSION.pack(size) for size in array.shape]
    length = sum(map(len, parts))
    for array in arrays:
        parts.append(bytes(-length % _ALIGNMENT))
        parts.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        length += len(parts[-2]) + array.nbytes
    return b"".join(parts)


def decode(message: bytes) -> tuple[Caller, list[NDArray[Any]]]:
    """Decodes a message; the arrays are views of it.

    Raises:
        MessageError: the message is invalid or incomplete.
    """
    try:
        magic, number, *caller = _HEAD.unpack_from(message)
        if magic != _MAGIC or number > MAX_ARRAYS:
            raise MessageError(f"not a message of this version (got magic {magic:#x}, {number} arrays)")
        described, position = [], _HEAD.size
        for _ in range(number):
            code, dimensions = _ARRAY.unpack_from(message, position)
            if code >= len(_DTYPES) or dimensions > _MAX_DIMENSIONS:
                raise MessageError(f"an array of another kind (got dtype {code}, {dimensions} dimensions)")
            position += _ARRAY.size
            shape = [_DIMENSION.unpack_from(message, position + 8 * axis)[0] for axis in range(dimensions)]
            position += 8 * dimensions
            described.append((_DTYPES[code], shape))
        arrays = []
        for dtype, shape in described:
            position += -position % _ALIGNMENT
            size = math.prod(shape)
            # NumPy does not reject every bad size.
            if min(shape, default=0) < 0 or size > len(message):
                raise MessageError(f"a size that no array in it can have (got {shape})")
            arrays.append(np.frombuffer(message, dtype, size, position).reshape(shape))
            position += size * dtype.itemsize
    except (struct.error, ValueError) as error:
        raise error if isinstance(error, MessageError) else MessageError(f"a cut message ({error})") from error
    if position != len(message):
        raise MessageError(f"a message of another length (got {len(message)} bytes, which describe {position})")
    return Caller(*caller), arrays
