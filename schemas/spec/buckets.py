"""Buckets of differences in position and age, for attention: equal steps within each doubling of 1 + x."""

POSITION_STEPS = 8
"""Buckets of each doubling of a difference in position, a power of two: those up to 15 have a bucket each."""
AGE_STEPS = 2
"""Buckets of each doubling of a difference in age, a power of two."""
AGE_BUCKETS = 32 * AGE_STEPS
"""Number of buckets of ages: up to 2^32 seconds, 136 years."""


def bucket(difference: int, steps: int) -> int:
    """Returns the bucket of a difference, from 0.

    >>> [bucket(difference, 2) for difference in (0, 1, 2, 3, 4, 5, 6, 7)]
    [0, 2, 3, 4, 4, 5, 5, 6]
    """
    doubling = (1 + difference).bit_length() - 1
    return doubling * steps + (1 + difference - (1 << doubling)) * steps // (1 << doubling)


def position_buckets(max_length: int) -> int:
    """Returns the number of buckets of positions: the target is one position before the newest event."""
    return bucket(max_length, POSITION_STEPS) + 1
