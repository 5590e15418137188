"""Distributions of the columns in both splits, from the statistics of TFDV."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorflow_metadata.proto.v0 import statistics_pb2

from sangam.components.page.facts import Distribution, FeatureFacts
from sangam.schemas.quantities import shown_number
from sangam.schemas.spec.data import EVAL, TRAIN

_BINS = 20
_VALUES = 8
_TAIL = 0.01
"""Share of the numbers in each outermost bin: otherwise a few extremes would put all others into one bin."""
_WIDE = 1000.0
"""Positive numbers that span more than this factor have bins of equal width in logarithms."""
_Floats = NDArray[np.float64]


def features(folder: Path | None) -> list[FeatureFacts]:
    """Returns every column, those first whose values differ most between the splits.

    Args:
        folder: folder of the statistics; None without statistics.
    """
    train, evaluated = _by_column(folder, TRAIN), _by_column(folder, EVAL)
    found = [
        FeatureFacts(
            name, _missing(train.get(name)), _missing(evaluated.get(name)), _distribution(train, evaluated, name)
        )
        for name in {**train, **evaluated}
    ]
    return sorted(found, key=lambda each: -each.distance)


def _by_column(folder: Path | None, split: str) -> Mapping[str, Any]:
    path = None if folder is None else folder / f"Split-{split}" / "FeatureStats.pb"
    if path is None or not path.is_file():
        return {}
    [dataset] = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes()).datasets
    return {".".join(feature.path.step): feature for feature in dataset.features}


def _stats(feature: Any) -> Any:
    return getattr(feature, feature.WhichOneof("stats"))


def _missing(feature: Any) -> float | None:
    if feature is None:
        return None
    common = _stats(feature).common_stats
    total = common.num_missing + common.num_non_missing
    return common.num_missing / total if total else None


def _distribution(train: Mapping[str, Any], evaluated: Mapping[str, Any], name: str) -> Distribution | None:
    sides: list[Any] = [side for side in (train.get(name), evaluated.get(name)) if side is not None]
    if len(sides) < 2 or not all(_stats(side).common_stats.num_non_missing for side in sides):
        return None
    kinds = {side.WhichOneof("stats") for side in sides}
    if kinds == {"num_stats"}:
        return _of_numbers([_quantiles(side) for side in sides])
    return _of_values([_value_shares(side) for side in sides]) if kinds == {"string_stats"} else None


def _quantiles(feature: Any) -> _Floats:
    """Returns the ascending edges of buckets with equally many values."""
    kind = statistics_pb2.Histogram.QUANTILES
    [histogram] = [each for each in feature.num_stats.histograms if each.type == kind][:1] or [None]
    if histogram is None or not histogram.buckets:
        return np.array([feature.num_stats.min, feature.num_stats.max])
    return np.array([*(bucket.low_value for bucket in histogram.buckets), histogram.buckets[-1].high_value])


def _of_numbers(sides: list[_Floats]) -> Distribution:
    low = min(float(np.quantile(side, _TAIL)) for side in sides)
    high = max(float(np.quantile(side, 1 - _TAIL)) for side in sides)
    if low == high:
        return Distribution([shown_number(low)], [1.0], [1.0], is_number=True)
    is_wide = low > 0 and high / low > _WIDE
    inner = (np.geomspace if is_wide else np.linspace)(low, high, _BINS + 1)[1:-1]
    shares = [
        np.diff([0.0, *np.interp(inner, side, np.linspace(0.0, 1.0, len(side))), 1.0]).round(4).tolist()
        for side in sides
    ]
    labels = [shown_number(edge) for edge in [low, *inner]]
    return Distribution(labels, shares[0], shares[1], is_number=True)


def _value_shares(feature: Any) -> dict[str, float]:
    stats = feature.string_stats
    total = max(stats.common_stats.tot_num_values, 1)
    return {bucket.label: bucket.sample_count / total for bucket in stats.rank_histogram.buckets}


def _of_values(sides: list[dict[str, float]]) -> Distribution | None:
    top = sorted({*sides[0], *sides[1]}, key=lambda value: -max(side.get(value, 0.0) for side in sides))[:_VALUES]
    if not top:
        return None
    shares = [[round(side.get(value, 0.0), 4) for value in top] for side in sides]
    return Distribution(top, shares[0], shares[1], is_number=False)
