"""Histograms have the buckets that TensorFlow Data Validation makes one by one, to the last bit."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow

_NORMAL = np.random.default_rng(1).normal(size=3000).astype(np.float32)
_INFINITE = np.full(9, np.inf)
NUMBERS = {
    "different": _NORMAL,
    "repeated": np.round(_NORMAL, 1),
    "mostly zero": np.where(_NORMAL > 1.0, _NORMAL, 0.0),
    "on the bounds": np.arange(11.0),
    "one": np.array([7.0]),
    "constant": np.full(30, -2.5),
    "infinite": np.concatenate([-_INFINITE, _NORMAL[:300], _INFINITE]),
    "infinite and one": np.concatenate([-_INFINITE, [1.0], _INFINITE]),
    "without a finite one": np.concatenate([-_INFINITE, _INFINITE]),
    "largest": np.array([-3.4e38, 0.0, 1e-40, 3.4e38]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_buckets_are_those_of_tfdv(name: str) -> None:
    from tensorflow_data_validation.utils import quantiles_util

    from sangam.components.steps.statistics_gen.histograms import of_equal_widths, of_quantiles

    numbers = np.sort(NUMBERS[name].astype(np.float64))
    finite = numbers[np.isfinite(numbers)]
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    infinite = int(np.isposinf(numbers).sum())
    for num in (3, 200):
        quantiles = numbers[np.linspace(0, len(numbers) - 1, num).astype(int)]
        counts = np.searchsorted(numbers, quantiles, side="right").astype(np.float64)
        assert of_quantiles(quantiles, counts) == quantiles_util.generate_quantiles_histogram(quantiles, counts)
        theirs = quantiles_util.generate_equi_width_histogram(quantiles, counts, low, high, 10, infinite)
        assert of_equal_widths(quantiles, counts, low=low, high=high, num=10, infinite=infinite) == theirs
