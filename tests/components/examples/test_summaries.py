"""Summaries of parts, merged, against NumPy over all numbers at once and against the sketch that TFX uses."""

from collections.abc import Sequence

import numpy as np
import pytest

from sangam.components.examples.summaries import (
    Moments,
    Points,
    Quantiles,
    at_most,
    boundaries,
    ends_of_bins,
    with_last_divided,
)


def moments_of(*parts: np.ndarray) -> Moments:
    found = Moments()
    for part in parts:
        one = Moments()
        one.add(part)
        found.merge(one)
    return found


def quantiles_of(parts: list[np.ndarray], error: float) -> Points:
    """Merges a summary of each part, as days are."""
    merged = Quantiles(error)
    for part in parts:
        one = Quantiles(error)
        for batch in np.array_split(part, 7):
            one.add(batch)
        merged.merge(one.points())
    return merged.points()


def test_moments_of_parts_are_those_of_all() -> None:
    numbers = np.random.default_rng(1).normal(1e6, 1.0, size=100_000).astype(np.float32)
    found = moments_of(numbers[:10], numbers[10:10], numbers[10:70_000], numbers[70_000:])
    exact = numbers.astype(np.float64)
    assert (found.count, found.low, found.high) == (numbers.size, numbers.min(), numbers.max())
    assert found.mean == pytest.approx(exact.mean(), rel=1e-14)
    assert found.deviation == pytest.approx(exact.std(), rel=1e-9)


@pytest.mark.parametrize("number", [0.1, 1e30, -7.3e-12])
def test_equal_numbers_deviate_by_exactly_nothing(number: float) -> None:
    same = np.full(999, number, np.float32)
    assert moments_of(same, same[:17]).deviation == 0.0
    assert moments_of(same[:0]).deviation == 0.0


@pytest.mark.parametrize("error", [0.01, 0.0025])
def test_every_rank_of_many_days_is_within_the_error(error: float) -> None:
    random = np.random.default_rng(2)
    # Days of different sizes, of a distribution that moves, and with a value of a fifth of all rows.
    parts = [random.lognormal(day / 10, 1.5, size=3000 * (1 + day % 5)).astype(np.float32) for day in range(28)]
    for part in parts:
        part[random.random(part.size) < 0.2] = 1.0
    points = quantiles_of(parts, error)
    assert len(points.values_N) <= 8 / error
    numbers = np.sort(np.concatenate(parts))
    assert points.weights_N.sum() == pytest.approx(numbers.size)
    tried = np.unique(numbers[:: numbers.size // 1000])
    exact = np.searchsorted(numbers, tried, side="right")
    assert np.abs(at_most(points, tried) - exact).max() <= error * numbers.size


def test_few_different_numbers_are_counted_exactly() -> None:
    random = np.random.default_rng(3)
    parts = [random.integers(0, 700, size=5000) for _ in range(9)]
    values, counts = np.unique(np.concatenate(parts), return_counts=True)
    points = quantiles_of(parts, 0.01)
    assert points.values_N.tolist() == values.tolist()
    assert points.weights_N.tolist() == counts.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("num", [2, 3, 10])
def test_boundaries_are_those_of_tensorflow_transform(num: int) -> None:
    import pyarrow as pa
    from tfx_bsl.sketches import QuantilesSketch

    for seed, numbers in enumerate([np.array([8.0, 9.0, 10.0, 11.0] * 2), np.arange(1, 1001) / 8]):
        sketch = QuantilesSketch(0.1 / num, 1 << 32, 1)
        sketch.AddValues(pa.array(np.random.default_rng(seed).permutation(numbers)))
        [expected] = sketch.GetQuantiles(num).to_pylist()
        points = quantiles_of(list(np.array_split(numbers, 3)), 0.1 / num)
        error = 0.0 if numbers.size < 100 else 0.1 / num * np.ptp(numbers)
        assert boundaries(points, num).tolist() == pytest.approx(expected[1:-1], abs=error)


@pytest.mark.parametrize(
    ("numbers", "ends"),
    [
        ([7], [7]),
        ([0, 0, 0, 1], [0, 1]),
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        (range(100), [0, 25, 50, 75, 99]),
        # 94 zeros fill one bin, the others share three.
        ([0] * 94 + [1, 2, 3, 4, 5, 6], [0, 1, 3, 5, 6]),
        ([0] * 40 + [1] * 40 + [2] * 10 + list(range(10, 20)), [0, 1, 2, 10, 19]),
    ],
)
def test_bins_hold_equally_many_numbers_and_one_that_repeats_fills_one_at_most(
    numbers: Sequence[int], ends: list[int]
) -> None:
    points = quantiles_of([np.array(numbers)], 0.01)
    assert ends_of_bins(points, min(numbers), max(numbers), 4).tolist() == ends


def test_the_last_bin_is_divided_where_there_must_be_more() -> None:
    assert with_last_divided(np.float32([1, 2, 8]), 4).tolist() == [1, 2, 4, 6, 8]
    assert with_last_divided(np.float32([0, 1]), 2).tolist() == [0, 0.5, 1]
    assert with_last_divided(np.float32([1, 2, 8]), 2).tolist() == [1, 2, 8]
    for none in ([], [3.0]):
        assert with_last_divided(np.float32(none), 4).tolist() == none
    # There is no float between these two.
    neighbors = np.float32([1, np.nextafter(np.float32(1), np.float32(2))])
    assert with_last_divided(neighbors, 4).tolist() == neighbors.tolist()


def test_no_numbers_make_no_points() -> None:
    points = quantiles_of([np.zeros(0)], 0.01)
    assert points.values_N.size == 0
    assert at_most(points, np.array([1.0])).tolist() == [0.0]
