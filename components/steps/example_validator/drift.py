"""The gate on the input: how far the evaluation split's values are from the training split's."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from tensorflow_metadata.proto.v0 import statistics_pb2

from schemas.derived.columns import feature_columns
from schemas.spec import Inputs
from schemas.spec.drift import Drift, DriftBounds, measures_of

FILE_NAME = "drift.json"
STATISTICS = {"num_quantiles_histogram_buckets": 100, "epsilon": 0.0025}
"""Options of the statistics: distances are taken from their quantiles, for which TFDV's ten buckets are too coarse."""
_BINS = 20
_NO_SUCH = statistics_pb2.FeatureNameStatistics()


class Distance(BaseModel):
    """One distance of one feature.

    Attributes:
        feature: name in the spec.
        measure: l_infinity, jensen_shannon or missing_share.
        value: None where one of the splits has no value to compare.
        bound: declared.
        is_within: value <= bound; also for None, which the reason says.
        reason: a sentence.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    feature: str
    measure: str
    value: float | None
    bound: float
    is_within: bool
    reason: str


def distances(
    inputs: Inputs,
    drift: Drift,
    *,
    train: statistics_pb2.DatasetFeatureStatisticsList,
    evaluation: statistics_pb2.DatasetFeatureStatisticsList,
) -> list[Distance]:
    """Returns every declared distance, in the order of the features.

    Args:
        inputs: the features; ids have statistics of texts.
        drift: the bounds.
        train: statistics of the training split.
        evaluation: of the evaluation split.
    """
    before, today = _by_column(train), _by_column(evaluation)
    found = []
    for name, feature in inputs.features.items():
        sides = {
            column.name: (before.get(column.name, _NO_SUCH), today.get(column.name, _NO_SUCH))
            for column in feature_columns(inputs, name)
            if not column.beside
        }
        for measure, bound in _declared(drift.bounds_of(name, measures_of(feature))):
            measured = {column: _distance(measure, *of_column) for column, of_column in sides.items()}
            # Of equal distances that of the first column; None is nearer than any.
            worst = max(measured, key=lambda column: (measured[column][0] is not None, measured[column][0] or 0.0))
            value, what = measured[worst]
            found.append(_judged(name, measure, value, bound, f" in column '{worst}'" * (len(sides) > 1) + what))
    return found


def _distance(
    measure: str, before: statistics_pb2.FeatureNameStatistics, today: statistics_pb2.FeatureNameStatistics
) -> tuple[float | None, str]:
    """Returns the distance of one column, None where a side has no value, and words on where it is."""
    if measure == "l_infinity":
        return l_infinity(before, today)
    if measure == "jensen_shannon":
        return jensen_shannon(before, today), ""
    shares = _missing_share(before), _missing_share(today)
    return abs(shares[0] - shares[1]), f" ({shares[0]:.3g} of the training examples, {shares[1]:.3g} now)"


def _declared(bounds: DriftBounds) -> Iterator[tuple[str, float]]:
    yield from bounds.model_dump(exclude_none=True).items()


def _judged(feature: str, measure: str, value: float | None, bound: float, what: str) -> Distance:
    if value is None:
        reason = f"{feature}: {measure} was not compared: one of the splits has no value"
        return Distance(feature=feature, measure=measure, value=None, bound=bound, is_within=True, reason=reason)
    is_within = value <= bound
    relation = "within" if is_within else "more than"
    reason = f"{feature}: {measure} {value:.4g} is {relation} the bound {bound:g}{what}"
    return Distance(feature=feature, measure=measure, value=value, bound=bound, is_within=is_within, reason=reason)


def _by_column(
    statistics: statistics_pb2.DatasetFeatureStatisticsList,
) -> Mapping[str, statistics_pb2.FeatureNameStatistics]:
    (dataset,) = statistics.datasets
    return {feature.path.step[0]: feature for feature in dataset.features}


def l_infinity(
    before: statistics_pb2.FeatureNameStatistics, today: statistics_pb2.FeatureNameStatistics
) -> tuple[float | None, str]:
    """Returns the largest difference of a value's share, and words on which value; None where a side has none.

    The statistics hold the 1,000 most frequent values of each side. A value known to one side alone counts as 0 on the
    other, which is too much by less than that side's least share known. TFDV's own norm takes the values that it holds
    for all there are, and was 2.5 times too high on ids of which there are many.
    """
    shares = [_shares(side) for side in (before, today)]
    if not all(shares):
        return None, ""
    before_of, now_of = shares
    difference = {value: abs(before_of.get(value, 0.0) - now_of.get(value, 0.0)) for value in {**before_of, **now_of}}
    # Of equal differences the first in the alphabet, so that a rerun tells the same.
    worst = min(difference, key=lambda value: (-difference[value], value))
    told = f" ('{worst}': {before_of.get(worst, 0.0):.3g} of the training values, {now_of.get(worst, 0.0):.3g} now)"
    return difference[worst], told


def _shares(side: statistics_pb2.FeatureNameStatistics) -> dict[str, float]:
    total = side.string_stats.common_stats.tot_num_values
    return {bucket.label: bucket.sample_count / total for bucket in side.string_stats.rank_histogram.buckets}


def _missing_share(side: statistics_pb2.FeatureNameStatistics) -> float:
    stats = getattr(side, side.WhichOneof("stats") or "num_stats").common_stats
    total = stats.num_missing + stats.num_non_missing
    return stats.num_missing / total if total else 1.0


def jensen_shannon(
    before: statistics_pb2.FeatureNameStatistics, today: statistics_pb2.FeatureNameStatistics
) -> float | None:
    """Returns the Jensen-Shannon divergence, base 2, over bins that hold equal shares of the training values.

    None where a side has no value. Bins of equal width, as TFDV has them, would put all of a skewed feature into one;
    TFDV's comparison by quantiles supposes values evenly spread between all cuts of both sides, and was twice too high.
    The shares come from the quantiles in the statistics: a divergence below about 0.005 may be their coarseness.

    Reference: Lin, Divergence measures based on the Shannon entropy, 1991, eq. 4.1.
    """
    training, now = _cumulative(before), _cumulative(today)
    if training is None or now is None:
        return None
    cuts, shares = training
    inner = np.unique(np.interp(np.linspace(0, 1, _BINS + 1)[1:-1], shares, cuts))
    p, q = (np.diff([0.0, *np.interp(inner, *side), 1.0]) for side in (training, now))
    middle = (p + q) / 2
    return float(sum(np.sum(np.where(x > 0, x * np.log2(np.where(x > 0, x / middle, 1.0)), 0.0)) for x in (p, q)) / 2)


def _cumulative(side: statistics_pb2.FeatureNameStatistics) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Returns ascending values and the share of values that are at most each; None without values."""
    kinds = statistics_pb2.Histogram
    (buckets,) = [h.buckets for h in side.num_stats.histograms if h.type == kinds.QUANTILES] or [()]
    total = sum(bucket.sample_count for bucket in buckets)
    if not total:
        return None
    # A value of many examples is the edge of several buckets: the share up to and with it is that of the last.
    at_most = {buckets[0].low_value: 0.0}
    so_far = 0.0
    for bucket in buckets:
        so_far += bucket.sample_count
        at_most[bucket.high_value] = so_far / total
    return np.array(list(at_most)), np.array(list(at_most.values()))
