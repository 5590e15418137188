"""What is sent is what is read, and anything else is refused."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sangam.trainer_module.parameter_server import wire
from sangam.trainer_module.parameter_server.wire import (
    HEAD,
    MAX_ARRAYS,
    Caller,
    MessageError,
    arrays_in,
    attempt_number,
    head_of,
)

KIND = 3
CALLER = Caller(attempt=2**64 - 3, rank=7, sequence=2**40)
ALIGNMENT = 64
DTYPES = ("<i8", "<i4", "<f4", "<f2", "<f8", "|u1")


def encode(caller: Caller, arrays: Sequence[NDArray[Any]]) -> bytes:
    """Returns a message as it is sent."""
    return b"".join(wire.encode(KIND, caller, arrays))


def decode(message: bytes) -> tuple[Caller, list[NDArray[Any]]]:
    """Reads a message as `stream.Stream` does, which reads as many bytes as the head says."""
    if len(message) < HEAD.size:
        raise MessageError("no head")
    head, body = head_of(message[: HEAD.size]), np.frombuffer(message[HEAD.size :], np.uint8)
    if head.length != len(body):
        raise MessageError("another length")
    return head.caller, arrays_in(head.number, body)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (0, 3), (3, 0), (3, 5)])
def test_arrays_of_every_type_and_shape_come_back_as_they_were(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    # Between others, so that it begins at every remainder of 8.
    arrays = [np.arange(3, dtype="|u1"), array, np.arange(2, dtype="<i8")]
    caller, read = decode(encode(CALLER, arrays))
    assert caller == CALLER
    assert [(each.dtype, each.shape) for each in read] == [(each.dtype, each.shape) for each in arrays]
    for got, sent in zip(read, arrays, strict=True):
        np.testing.assert_array_equal(got, sent)


def test_what_is_not_finite_and_what_is_no_block_of_memory_comes_back_too() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    columns = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
    _, (read_odd, read_columns) = decode(encode(CALLER, [odd, columns]))
    assert read_odd.tobytes() == odd.tobytes()
    np.testing.assert_array_equal(read_columns, columns)


def test_a_message_without_arrays_names_its_caller() -> None:
    assert decode(encode(CALLER, [])) == (CALLER, [])


def test_no_byte_may_lack_or_follow() -> None:
    message = encode(CALLER, [np.arange(3, dtype=np.int32), np.ones([2, 2], np.float16)])
    for length in range(len(message)):
        with pytest.raises(MessageError):
            decode(message[:length])
    body = np.frombuffer(message[HEAD.size :], np.uint8)
    for more in (b"\0", b"\0" * ALIGNMENT):
        with pytest.raises(MessageError, match="another length"):
            arrays_in(2, np.concatenate([body, np.frombuffer(more, np.uint8)]))


def test_foreign_messages_are_refused() -> None:
    message = bytearray(encode(CALLER, [np.arange(3, dtype=np.int64)]))
    foreign = {
        "magic": (0, b"GET "),
        "too many arrays": (6, (MAX_ARRAYS + 1).to_bytes(2, "little")),
        "too short for its arrays": (32, (8).to_bytes(8, "little")),
        "another type": (HEAD.size, b"\x06"),
        "too many dimensions": (HEAD.size + 1, b"\x03"),
        "negative size": (HEAD.size + 8, (-1).to_bytes(8, "little", signed=True)),
        "size beyond memory": (HEAD.size + 8, (2**62).to_bytes(8, "little", signed=True)),
    }
    for position, bytes_there in foreign.values():
        other = message[:]
        other[position : position + len(bytes_there)] = bytes_there
        with pytest.raises(MessageError):
            decode(bytes(other))


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_changed_in_a_message_it_is_read_or_refused_and_nothing_else(seed: int) -> None:
    draw = random.Random(seed)
    arrays: list[NDArray[Any]] = [np.arange(5, dtype=np.int64), np.ones([3, 2], np.float16), np.zeros([0], np.float32)]
    message = encode(CALLER, arrays)
    refused = 0
    for _ in range(2000):
        other = bytearray(message)
        for _ in range(draw.randint(1, 4)):
            match draw.randint(0, 2):
                case 0:
                    other[draw.randrange(len(other))] = draw.randrange(256)
                case 1:
                    del other[draw.randrange(len(other)) :]
                    other += b"\0"
                case 2:
                    at = draw.randrange(len(other))
                    other[at:at] = draw.randbytes(draw.randint(1, 9))
        try:
            _, read = decode(bytes(other))
        except MessageError:
            refused += 1
        else:
            assert sum(each.nbytes for each in read) <= len(other)
    assert refused > 500


def test_large_arrays_are_sent_from_where_they_lie_and_received_where_tensorflow_takes_them() -> None:
    large, small = np.arange(5000, dtype=np.float32).reshape(-1, 2), np.arange(3)
    parts = wire.encode(KIND, CALLER, [small, large, small])
    assert np.shares_memory(np.frombuffer(parts[1], np.uint8), large)
    message = np.frombuffer(b"".join(parts), np.uint8)
    body = wire.room(len(message) - HEAD.size)
    body[:] = message[HEAD.size :]
    read = arrays_in(3, body)
    assert [array.ctypes.data % ALIGNMENT for array in read] == [0, 0, 0]
    np.testing.assert_array_equal(read[1], large)


def test_attempts_of_different_names_have_different_numbers() -> None:
    numbers = {attempt_number(f"{job}-{attempt}") for job in range(50) for attempt in range(50)}
    assert len(numbers) == 2500
    assert all(0 <= number < 2**64 for number in numbers)
