"""All ranks get the same result, once all have sent their parts."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sangam.trainer_module.parameter_server.meetings import Meetings, Operation
from sangam.trainer_module.parameter_server.wire import MessageError

RANKS = 3


def _all(meetings: Meetings, operation: Operation, parts: list[NDArray[Any]], number: int = 0) -> list[bytes]:
    """Lets every rank call from a thread of its own; returns the bytes that each got."""

    def call(rank: int) -> bytes:
        result = meetings.meet("x", number, rank, operation, parts[rank], patience_s=10)
        assert result is not None
        return result.tobytes()

    with ThreadPoolExecutor(RANKS) as threads:
        return list(threads.map(call, range(RANKS)))


def test_sums_are_in_the_order_of_the_ranks_whoever_comes_first() -> None:
    # In another order of addition the 1 would be lost.
    parts = [np.array([value], np.float32) for value in (2.0**24, -(2.0**24), 1.0)]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        meetings = Meetings(RANKS)
        for rank in order[:-1]:
            assert meetings.meet("x", 0, rank, "sum", parts[rank], patience_s=0.0) is None
        for rank in (order[-1], *order):
            result = meetings.meet("x", 0, rank, "sum", parts[rank], patience_s=0.0)
            assert result is not None
            assert result.tolist() == [1.0]


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64, np.uint8])
def test_every_rank_gets_the_bits_of_the_same_sum_and_maximum(dtype: type) -> None:
    generator = np.random.default_rng(0)
    parts: list[NDArray[Any]] = [(generator.random(1000) * 80).astype(dtype) for _ in range(RANKS)]
    assert set(_all(Meetings(RANKS), "sum", parts)) == {((parts[0] + parts[1]) + parts[2]).tobytes()}
    assert set(_all(Meetings(RANKS), "max", parts)) == {np.max(parts, 0).tobytes()}


def test_rows_come_one_ranks_after_the_others_however_many_each_has() -> None:
    parts: list[NDArray[Any]] = [np.full([number, 2], float(number)) for number in (2, 0, 3)]
    assert set(_all(Meetings(RANKS), "rows", parts)) == {np.concatenate(parts).tobytes()}


def test_a_part_is_not_changed_by_the_sum() -> None:
    parts: list[NDArray[Any]] = [np.ones(2, np.float32) for _ in range(RANKS)]
    _all(Meetings(RANKS), "sum", parts)
    assert all(part.tolist() == [1.0, 1.0] for part in parts)


def test_who_comes_too_early_is_told_to_ask_again_and_counts_once() -> None:
    meetings, one = Meetings(2), np.array([1], np.int64)
    assert meetings.meet("x", 0, 0, "sum", one, patience_s=0.01) is None
    assert meetings.meet("x", 0, 0, "sum", np.array([50], np.int64), patience_s=0.01) is None
    result = meetings.meet("x", 0, 1, "sum", one, patience_s=0.01)
    assert result is not None
    assert result.tolist() == [2]
    for rank in (0, 1):
        again = meetings.meet("x", 0, rank, "sum", np.array([50], np.int64), patience_s=0.01)
        assert again is result


@pytest.mark.parametrize("seed", range(5))
def test_rounds_of_several_names_do_not_mix_whatever_is_repeated(seed: int) -> None:
    meetings, rounds = Meetings(RANKS), 40

    def rank_of(rank: int) -> None:
        draw = random.Random(seed * RANKS + rank)
        for number in range(rounds):
            for name in ("a", "b"):
                part = np.array([number * 10 + rank, len(name)], np.int64)
                for _ in range(draw.randint(1, 3)):
                    while (result := meetings.meet(name, number, rank, "sum", part, patience_s=0.05)) is None:
                        pass
                    assert result.tolist() == [number * 10 * RANKS + 3, RANKS]

    with ThreadPoolExecutor(RANKS) as threads:
        list(threads.map(rank_of, range(RANKS)))


def test_parts_that_do_not_fit_each_other_are_refused() -> None:
    for other in (np.zeros(3, np.float32), np.zeros(2, np.float64), np.zeros([2, 1], np.float32)):
        meetings = Meetings(2)
        assert meetings.meet("x", 0, 0, "sum", np.zeros(2, np.float32), patience_s=0.01) is None
        with pytest.raises(MessageError, match="the ranks' parts differ"):
            meetings.meet("x", 0, 1, "sum", other, patience_s=0.01)
    meetings = Meetings(2)
    assert meetings.meet("x", 0, 0, "rows", np.zeros([2, 3]), patience_s=0.01) is None
    with pytest.raises(MessageError, match="the ranks' parts differ"):
        meetings.meet("x", 0, 1, "rows", np.zeros([2, 4]), patience_s=0.01)
