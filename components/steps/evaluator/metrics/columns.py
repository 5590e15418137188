"""Columns of an Arrow batch as arrays: numbers, hashes of values, a hash of every example. Nothing loops over rows.

A column is a list of values per example, as in tf.Example; an empty list means a missing value.
"""

import functools
import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.draws import Units
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats
from sangam.schemas.host.splitmix64 import GAMMA, mix64

MISSING = np.uint64(0)
"""The hash of a missing value."""
_BASE = np.uint64(0x2545F4914F6CDD1D)
"""Odd, so that it has an inverse modulo 2**64."""
_MOST_BYTES = 1 << 20
"""Maximum bytes of texts that are hashed at once: the powers take 16 times as much memory."""
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))


def first_values(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns the first value of each example, null without one."""
    index = batch.schema.get_field_index(name)
    if index < 0:  # No example of the batch has a value.
        return pa.nulls(batch.num_rows)
    starts, ends, values = lists(batch.column(index))
    if len(values) == batch.num_rows and (ends - starts == 1).all():
        return values.slice(int(starts[0]) if len(starts) else 0, batch.num_rows)
    return values.take(pa.array(starts, mask=starts >= ends))


def numbers(values: pa.Array) -> Floats:
    """Returns the values as floats, NaN where one is missing."""
    if not len(values) or pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    floats = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    return floats if not values.null_count else np.where(values.is_valid().to_numpy(False), floats, np.nan)


def keys(values: pa.Array) -> Units:
    """Returns the hash of each value, MISSING for null."""
    if not len(values) or pa.types.is_null(values.type):
        return np.full(len(values), MISSING)
    hashed = np.maximum(mix64(_bits(values)), np.uint64(1))
    return hashed if not values.null_count else np.where(values.is_valid().to_numpy(False), hashed, MISSING)


def example_ids(batch: pa.RecordBatch) -> Units:
    """Returns a hash of each example's values, independent of files and the order of columns; never MISSING."""
    ids = np.zeros(batch.num_rows, np.uint64)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        starts, ends, values = lists(column)
        if not len(values):
            continue
        bits = _bits(values) ^ _salt(field.name)
        longest = int((ends - starts).max(initial=0))
        if longest > 1:
            # The hash depends on a value's index in its list.
            place = np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))
            bits = bits + place.astype(np.uint64) * np.uint64(GAMMA)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix64(bits), dtype=np.uint64)])
        ids += sums[ends] - sums[starts]
    return np.maximum(mix64(ids), np.uint64(1))


def lists(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Returns where each example's values start and end, and the values."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    starts, ends = offsets[:-1], offsets[1:]
    if column.null_count:
        ends = np.where(column.is_valid().to_numpy(False), ends, starts)
    return starts, ends, column.values


def _bits(values: pa.Array) -> Units:
    """Returns 64 bits of each value, the same for equal values."""
    if pa.types.is_integer(values.type):
        return values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    if pa.types.is_floating(values.type):
        # 0.0 and -0.0 are equal.
        return (values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0).view(np.uint64)
    return _bits_of_texts(values.fill_null(b"").cast(pa.large_binary()))


def _bits_of_texts(values: pa.Array) -> Units:
    """Returns a polynomial of each value's bytes, modulo 2**64.

    With a running sum of byte times power of its index in the buffer, a value's polynomial is a difference of two sums,
    divided by the power of its first index.
    """
    _, offsets_buffer, buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    if last - first > _MOST_BYTES and len(values) > 1:
        middle = len(values) // 2
        return np.concatenate([_bits_of_texts(values[:middle]), _bits_of_texts(values[middle:])])
    data = np.frombuffer(buffer, np.uint8)[first:last] if buffer is not None else np.zeros(0, np.uint8)
    powers, inverses = _powers(len(data))
    # + 1: leading zero bytes affect the result.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((data.astype(np.uint64) + 1) * powers, dtype=np.uint64)])
    starts, ends = offsets[:-1] - first, offsets[1:] - first
    return mix64((sums[ends] - sums[starts]) * inverses[starts])


def _powers(size: int) -> tuple[Units, Units]:
    """Returns the powers of the base and of its inverse, from 0 to `size`."""
    rounded = 1 << max(16, int(size).bit_length())
    powers, inverses = _powers_to(rounded)
    return powers[:size], inverses[: size + 1]


@functools.lru_cache(maxsize=1)
def _powers_to(size: int) -> tuple[Units, Units]:
    exponents = np.ones(size + 1, np.uint64)
    powers, inverses = exponents.copy(), exponents
    powers[1:], inverses[1:] = _BASE, _INVERSE
    return np.cumprod(powers, dtype=np.uint64), np.cumprod(inverses, dtype=np.uint64)


@functools.lru_cache(maxsize=4096)
def _salt(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
