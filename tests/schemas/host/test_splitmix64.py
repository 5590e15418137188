"""SplitMix64 against the numbers of its reference implementation (prng.di.unimi.it/splitmix64.c)."""

import numpy as np

from sangam.schemas.host.splitmix64 import GAMMA, mix64


def test_a_stream_has_the_numbers_of_the_reference() -> None:
    numbers = mix64(np.uint64(0) + np.arange(1, 4, dtype=np.uint64) * np.uint64(GAMMA))
    assert numbers.dtype == np.uint64
    assert [hex(number) for number in numbers.tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_the_finalizer_is_one_to_one_at_the_edges() -> None:
    edges = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert mix64(edges).tolist()[0] == 0
    assert len(set(mix64(edges).tolist())) == len(edges)
