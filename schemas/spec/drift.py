"""Bounds on the distance between a day's examples and the training examples."""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel, Name
from sangam.schemas.spec.features import (
    AgeFeature,
    BucketsFeature,
    CountFeature,
    CrossFeature,
    Feature,
    IdFeature,
    IdsFeature,
    MatchFeature,
    NumericFeature,
    RateFeature,
    SequenceFeature,
    TimeFeature,
    VectorFeature,
)

Share = Annotated[float, Field(ge=0, le=1)]
Measure = Literal["l_infinity", "jensen_shannon", "missing_share"]


def measures_of(feature: Feature) -> tuple[Measure, ...]:
    """Returns the distances that apply to a feature.

    For a feature of two columns the larger of both distances counts. Times change by themselves: only their
    missing share can be compared.
    """
    match feature:
        case NumericFeature() | BucketsFeature() | VectorFeature():
            return "jensen_shannon", "missing_share"
        case CrossFeature() if "float" in feature.columns.values():
            return ("missing_share",)
        case IdFeature() | IdsFeature() | SequenceFeature() | CrossFeature() | MatchFeature():
            return "l_infinity", "missing_share"
        case TimeFeature() | AgeFeature():
            return ("missing_share",)
        case RateFeature() | CountFeature():
            # Distances of their ids: the logs have no other columns of theirs.
            return "l_infinity", "missing_share"
        case _:
            return ("missing_share",)


class DriftBounds(FrozenModel):
    """Largest distances between a feature's values in the evaluation split and in the training split.

    `keep_negatives` and `data.negatives` alone make the two differ.
    """

    l_infinity: Share | None = None
    """Largest change of one id's share."""
    jensen_shannon: Share | None = None
    """Largest Jensen-Shannon divergence of the distributions of a number, or of all floats of a vector, in base 2: 0 if
    equal, 1 if disjoint."""
    missing_share: Share | None = None
    """Largest change of the share of examples without the feature."""


class Drift(FrozenModel):
    """The gate on the input data, before training. Servers judge what they are asked by the same bounds;
    docs/monitoring.md."""

    action: Literal["stop", "warn"]
    """Consequence of a feature out of bounds. `stop`: the run fails and names it. `warn`: the run's summary notes
    it."""
    every: DriftBounds | None = None
    """Bounds of features without their own; `l_infinity` is for ids, `jensen_shannon` for numbers, neither for
    times."""
    features: Annotated[dict[Name, DriftBounds], Field(min_length=1)] | None = None
    """Bounds of single features, by the name of the feature."""

    def bounds_of(self, feature: str, measures: Collection[Measure]) -> DriftBounds:
        """Returns a feature's bounds: its own, or those of `every` for the given measures."""
        own = (self.features or {}).get(feature)
        if own is not None or self.every is None:
            return own or DriftBounds()
        return DriftBounds(**{measure: getattr(self.every, measure) for measure in measures})
