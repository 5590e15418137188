"""SplitMix64, the one hash of 64-bit numbers: its draws are the same on every machine and in every run.

Reference: Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

from typing import Any

GAMMA = 0x9E3779B97F4A7C15
"""The n-th number of a stream is `mix64(seed + n * GAMMA)`, n from 1."""
SHIFTS = (30, 27, 31)
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def mix64(numbers: Any) -> Any:
    """Returns SplitMix64's finalizer of each number.

    Args:
        numbers: array of numpy.uint64; products wrap around at 2**64. `embedding.hashing` has the same for tensors.
    """
    first, second, last = SHIFTS
    numbers = (numbers ^ (numbers >> first)) * MULTIPLIERS[0]
    numbers = (numbers ^ (numbers >> second)) * MULTIPLIERS[1]
    return numbers ^ (numbers >> last)
