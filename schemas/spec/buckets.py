"""Buckets of numbers from 0: ages, amounts and positions of events; and of distances between positions."""

NUM_BUCKETS = 64
"""Buckets of an age, an amount or a position: two for each doubling of 1 + x, up to 2^32 (seconds: 136 years)."""
POSITION_STEPS = 8
"""Buckets of each doubling of 1 + a distance between positions, for attention, a power of two of equal width: those up
to 15 have a bucket each."""


def bucket_starts() -> tuple[float, ...]:
    """Returns the least number of each bucket but the first, which has all below.

    >>> bucket_starts()[:4]
    (0.41421356237309515, 1.0, 1.8284271247461903, 3.0)
    """
    return tuple(2.0 ** (bucket / 2) - 1.0 for bucket in range(1, NUM_BUCKETS))


def bucket(distance: int) -> int:
    """Returns the bucket of a distance between positions, from 0.

    >>> [bucket(distance) for distance in (0, 1, 15, 16, 17, 31, 33, 35)]
    [0, 8, 32, 32, 33, 40, 40, 41]
    """
    doubling = (1 + distance).bit_length() - 1
    return doubling * POSITION_STEPS + (1 + distance - (1 << doubling)) * POSITION_STEPS // (1 << doubling)


def position_buckets(max_length: int) -> int:
    """Returns the number of buckets of positions: the target is one position before the newest event."""
    return bucket(max_length) + 1
