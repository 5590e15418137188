"""Messages between ranks and servers: a head of fixed length, and arrays as raw bytes.

    magic, kind, number of arrays, attempt, rank, sequence number, length of what follows
    for each array: dtype, number of dimensions, dimensions
    the bytes of the arrays, each aligned to 64 bytes

Large arrays are sent from where they lie, and read where they were received: aligned so, TensorFlow takes them there.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_ARRAYS = 4096
_MAGIC = 0x53_47_50_32
HEAD = struct.Struct("<IHHQqqQ")
_ARRAY = struct.Struct("<BB6xqq")
_DTYPES = tuple(map(np.dtype, ("<i8", "<i4", "<f4", "<f2", "<f8", "|u1")))
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}
_MAX_DIMENSIONS = 2
_ALIGNMENT = 64
_SMALL_BYTES = 4096
"""Arrays up to this size are copied: one more buffer to send costs more."""


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


class Head(NamedTuple):
    """The head of a message.

    Attributes:
        kind: of a call, its method; of an answer, its status.
        number: number of arrays.
        caller: the call, also in its answer.
        length: bytes that follow.
    """

    kind: int
    number: int
    caller: Caller
    length: int


def attempt_number(label: str) -> int:
    """Returns a 64-bit hash of an attempt's name; a server answers only ranks of its own attempt."""
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")


def encode(kind: int, caller: Caller, arrays: Sequence[NDArray[Any]]) -> list[Any]:
    """Returns the parts of a message, to be sent one after the other; large ones are the arrays' own memory."""
    described = [
        _ARRAY.pack(_CODES[array.dtype], array.ndim, *(*array.shape, 0, 0)[:_MAX_DIMENSIONS]) for array in arrays
    ]
    length = _ARRAY.size * len(arrays)
    parts: list[Any] = []
    small = [b"", *described]  # The head comes first, once the length is known.
    for array in arrays:
        small.append(bytes(-length % _ALIGNMENT))
        length += len(small[-1]) + array.nbytes
        if array.nbytes <= _SMALL_BYTES:
            small.append(array.tobytes())
        else:
            parts += [small, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data]
            small = []
    parts.append(small)
    parts[0][0] = HEAD.pack(_MAGIC, kind, len(arrays), *caller, length)
    return [b"".join(part) if isinstance(part, list) else part for part in parts]


def head_of(received: bytes | bytearray) -> Head:
    """Decodes a head.

    Raises:
        MessageError: it is of another protocol or version, or describes more than a message can have.
    """
    magic, kind, number, attempt, rank, sequence, length = HEAD.unpack(received)
    if magic != _MAGIC or number > MAX_ARRAYS or length < _ARRAY.size * number:
        raise MessageError(f"not a message of this version (got magic {magic:#x}, {number} arrays in {length} bytes)")
    return Head(kind, number, Caller(attempt, rank, sequence), length)


def room(length: int) -> NDArray[np.uint8]:
    """Returns memory for what follows a head, aligned as its arrays."""
    block = np.empty(length + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + length]


def arrays_in(number: int, body: NDArray[np.uint8]) -> list[NDArray[Any]]:
    """Decodes the arrays of a message; they are views of it.

    Args:
        number: number of arrays, from the head.
        body: what follows the head.

    Raises:
        MessageError: the message is invalid.
    """
    arrays, position = [], _ARRAY.size * number
    for code, dimensions, *sizes in _ARRAY.iter_unpack(body[:position].data):
        if code >= len(_DTYPES) or dimensions > _MAX_DIMENSIONS:
            raise MessageError(f"an array of another kind (got dtype {code}, {dimensions} dimensions)")
        shape = sizes[:dimensions]
        dtype = _DTYPES[code]
        position += -position % _ALIGNMENT
        end = position + math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or end > len(body):
            raise MessageError(
                f"an array beyond the end of the message (got {shape} at {position} of {len(body)} bytes)"
            )
        arrays.append(body[position:end].view(dtype).reshape(shape))
        position = end
    if position != len(body):
        raise MessageError(f"a message of another length (got {len(body)} bytes, which describe {position})")
    return arrays
