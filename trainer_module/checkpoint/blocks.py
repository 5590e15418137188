"""The order of rows in a rank's files, and the blocks that hold any rank's rows. Pure functions.

Each of n ranks owns one nth of the range of the hash of ids. Files hold rows in the order of the hash's upper bits, the
bucket. So the rows of any rank, of any number of ranks, are a run of blocks. A block is a run of whole buckets with its
own checksums; it is the least that is read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.derived.groups import KEY_ID_BITS
from sangam.schemas.host.splitmix64 import mix64
from sangam.trainer_module.snapshot import HeldRows

BLOCK_ROWS = 1 << 14
_HASH_BITS = 32
_BUCKET_BITS = 16  # NumPy sorts 16-bit numbers by radix.
_BUCKETS = 1 << _BUCKET_BITS
_KEYS_AT_ONCE = 1 << 18


class Block(NamedTuple):
    """A run of rows.

    Attributes:
        first_bucket, last_bucket: first and last of its buckets; it holds all rows of these and those between.
        start, end: range of its rows in the file.
        keys_crc32, rows_crc32: checksums of the bytes of its keys and rows.
    """

    first_bucket: int
    last_bucket: int
    start: int
    end: int
    keys_crc32: int
    rows_crc32: int


def hashes_of(keys: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns 32 bits for each key, as `embedding.hashing.owner_of` takes them: [n] int64 to [n]."""
    mixed: NDArray[np.uint64] = mix64((keys & ((1 << KEY_ID_BITS) - 1)).astype(np.uint64))
    return mixed >> np.uint64(64 - _HASH_BITS)


def is_owned(keys: NDArray[Any], rank: int, ranks: int) -> NDArray[np.bool_]:
    """Returns which keys a rank owns: [n] int64 to [n]."""
    owned: NDArray[np.bool_] = (hashes_of(keys) * np.uint64(ranks)) >> np.uint64(_HASH_BITS) == np.uint64(rank)
    return owned


def buckets_of_rank(rank: int, ranks: int) -> tuple[int, int]:
    """Returns the first and the last bucket that hold keys of a rank; it may share both with its neighbors."""
    first, end = (-(-(edge << _HASH_BITS) // ranks) for edge in (rank, rank + 1))
    shift = _HASH_BITS - _BUCKET_BITS
    return first >> shift, (end - 1) >> shift


def ranks_beside(rank: int, ranks: int, other: int) -> range:
    """Returns which of `other` ranks share keys with this one of `ranks`."""
    return range(rank * other // ranks, -(-(rank + 1) * other // ranks))


def order_of(rows: HeldRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the order in which rows are written, [n], and how many each bucket has, [buckets]."""
    buckets, rows_by_bucket = np.empty(rows.num_rows, np.uint16), np.zeros(_BUCKETS, np.int64)
    buffer = np.empty(_KEYS_AT_ONCE, np.int64)
    for start in range(0, rows.num_rows, _KEYS_AT_ONCE):
        part = slice(start, min(start + _KEYS_AT_ONCE, rows.num_rows))
        keys = rows.take_keys(np.arange(part.start, part.stop), buffer)
        buckets[part] = hashes_of(keys) >> np.uint64(_HASH_BITS - _BUCKET_BITS)
        rows_by_bucket += np.bincount(buckets[part], minlength=_BUCKETS)
    return np.argsort(buckets, kind="stable"), rows_by_bucket


def cut(rows_by_bucket: NDArray[np.int64], block_rows: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields first and last bucket, start and end of each block of about `block_rows` rows.

    Args:
        rows_by_bucket: [buckets].
        block_rows: a larger bucket is a block by itself.
    """
    ends = np.cumsum(rows_by_bucket)
    filled = np.flatnonzero(rows_by_bucket)
    number = (ends - rows_by_bucket)[filled] // block_rows
    for run in np.split(filled, np.flatnonzero(np.diff(number)) + 1):
        if len(run):
            yield int(run[0]), int(run[-1]), int(ends[run[0]] - rows_by_bucket[run[0]]), int(ends[run[-1]])


def as_array(blocks: Sequence[Block]) -> NDArray[np.int64]:
    """Returns blocks as numbers: [blocks, 6]."""
    return np.array(blocks, np.int64).reshape(-1, len(Block._fields))


def from_array(numbers: NDArray[Any], num_rows: int) -> list[Block] | None:
    """Returns the inverse of `as_array`; None where the blocks do not cover that many rows."""
    if numbers.dtype != np.int64 or numbers.ndim != 2 or numbers.shape[1] != len(Block._fields):
        return None
    blocks = [Block(*row) for row in numbers.tolist()]
    ends = [0, *(block.end for block in blocks)]
    follow = all(block.start == end < block.end for block, end in zip(blocks, ends[:-1], strict=True))
    return blocks if follow and ends[-1] == num_rows else None
