"""Hashes of ids and texts: equal in training and in every server, so that files and servers need no values."""

import hashlib
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.host.splitmix64 import mix64

NO_TEXT = "__BYTES_VALUE__"
"""What statistics have in place of each value that is not UTF-8."""


def hash_of_text(value: bytes) -> int:
    """Returns the hash of one text."""
    try:
        value.decode()
    except UnicodeDecodeError:
        value = NO_TEXT.encode()
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "big")


def counted_hashes(values: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns the hashes of values, texts or integers, and how often each was found; integers may repeat."""
    if values.dtype.kind in "iu":
        return mix64(values.astype(np.int64).view(np.uint64)), np.ones(len(values), np.int64)
    counted = Counter(values.tolist())
    hashes = np.fromiter(map(hash_of_text, counted), np.uint64, len(counted))
    return hashes, np.fromiter(counted.values(), np.int64, len(counted))
