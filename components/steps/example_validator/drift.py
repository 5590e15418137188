"""Measures drift: the distance of the evaluation split's values from the training split's."""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict
from tensorflow_metadata.proto.v0 import statistics_pb2

from sangam.components.drift import distances as measures
from sangam.components.drift.statistics import by_column, cumulative, missing_share, value_shares
from sangam.schemas.derived.columns import drifting_columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.drift import Drift, DriftBounds, measures_of

STATISTICS = {"num_quantiles_histogram_buckets": 100, "epsilon": 0.0025}
"""Options of the statistics: distances come from their quantiles, for which TFDV's ten buckets are too coarse."""
_NO_SUCH = statistics_pb2.FeatureNameStatistics()


class Distance(BaseModel):
    """One distance of one feature.

    Attributes:
        feature: name in the spec.
        measure: l_infinity, jensen_shannon or missing_share.
        value: distance; None if one of the splits has no value to compare.
        bound: bound from the spec.
        is_within: value <= bound, or the value is None.
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
    """Returns every distance that the spec bounds, in the order of the features.

    Args:
        inputs: the features; ids have statistics of strings.
        drift: the bounds.
        train: statistics of the training split.
        evaluation: statistics of the evaluation split.
    """
    before, now = by_column(train), by_column(evaluation)
    results = []
    for name, feature in inputs.features.items():
        column_sides = {
            column.name: (before.get(column.name, _NO_SUCH), now.get(column.name, _NO_SUCH))
            for column in drifting_columns(inputs, name)
        }
        for measure, bound in _bounds(drift.bounds_of(name, measures_of(feature))):
            measured = {column: _distance(measure, *of_column) for column, of_column in column_sides.items()}
            # The first column of equal distances; None counts as the smallest.
            worst = max(measured, key=lambda column: (measured[column][0] is not None, measured[column][0] or 0.0))
            value, what = measured[worst]
            results.append(
                _judged(name, measure, value, bound, f" in column '{worst}'" * (len(column_sides) > 1) + what)
            )
    return results


def _distance(
    measure: str, before: statistics_pb2.FeatureNameStatistics, now: statistics_pb2.FeatureNameStatistics
) -> tuple[float | None, str]:
    """Returns the distance of one column, None if a side has no value, and a text with details."""
    if measure == "l_infinity":
        return l_infinity(before, now)
    if measure == "jensen_shannon":
        return jensen_shannon(before, now), ""
    shares = missing_share(before), missing_share(now)
    return abs(shares[0] - shares[1]), f" ({shares[0]:.3g} of the training examples, {shares[1]:.3g} now)"


def _bounds(bounds: DriftBounds) -> Iterator[tuple[str, float]]:
    yield from bounds.model_dump(exclude_none=True).items()


def _judged(feature: str, measure: str, value: float | None, bound: float, what: str) -> Distance:
    if value is None:
        reason = f"{feature}: {measure} was not compared: one of the splits has no value"
        return Distance(feature=feature, measure=measure, value=None, bound=bound, is_within=True, reason=reason)
    is_within = value <= bound
    relation = "within" if is_within else "more than"
    reason = f"{feature}: {measure} {value:.4g} is {relation} the bound {bound:g}{what}"
    return Distance(feature=feature, measure=measure, value=value, bound=bound, is_within=is_within, reason=reason)


def l_infinity(
    before: statistics_pb2.FeatureNameStatistics, now: statistics_pb2.FeatureNameStatistics
) -> tuple[float | None, str]:
    """Returns the largest difference of a value's share, and a text with that value; None if a side has no values.

    The statistics contain the 1,000 most frequent values of each side. A value that only one side contains counts as 0
    on the other; the error is less than that side's smallest share. TFDV's norm treats the 1,000 values as all,
    and was 2.5 times too high for features with many ids.
    """
    shares = [value_shares(side) for side in (before, now)]
    if not all(shares):
        return None, ""
    before_of, now_of = shares
    difference = {value: abs(before_of.get(value, 0.0) - now_of.get(value, 0.0)) for value in {**before_of, **now_of}}
    # The alphabetically first of equal differences, so that a rerun has the same text.
    worst = min(difference, key=lambda value: (-difference[value], value))
    detail = f" ('{worst}': {before_of.get(worst, 0.0):.3g} of the training values, {now_of.get(worst, 0.0):.3g} now)"
    return difference[worst], detail


def jensen_shannon(
    before: statistics_pb2.FeatureNameStatistics, now: statistics_pb2.FeatureNameStatistics
) -> float | None:
    """Returns the Jensen-Shannon divergence, base 2, over bins with equal shares of the training values.

    None if a side has no value. Bins of equal width, as in TFDV, would put nearly all of a skewed feature into one;
    TFDV's comparison by quantiles assumes values to be uniform between all quantiles of both sides, and was twice too
    high. The shares come from the quantiles in the statistics, which are accurate to about 0.005.
    """
    training, evaluation = cumulative(before), cumulative(now)
    if training is None or evaluation is None:
        return None
    cuts = measures.cuts_of(*training)
    return measures.jensen_shannon(measures.shares_of(cuts, *training), measures.shares_of(cuts, *evaluation))
