"""How far a day's examples may be from those that the model is trained on."""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import assert_never

from schemas.spec.base import FrozenModel, Name
from schemas.spec.features import (
    AgeFeature,
    BucketsFeature,
    CrossFeature,
    Feature,
    IdFeature,
    IdsFeature,
    MatchFeature,
    NumericFeature,
    SequenceFeature,
    TimeFeature,
    VectorFeature,
)

Share = Annotated[float, Field(ge=0, le=1)]
Measure = Literal["l_infinity", "jensen_shannon", "missing_share"]


def measures_of(feature: Feature) -> tuple[Measure, ...]:
    """Returns the distances that mean something for a feature.

    Those of a feature made of two columns are of each of them, and the larger one counts. Times move on by themselves:
    of these only how often they are missing can be compared.
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
        case _:
            assert_never(feature)


class DriftBounds(FrozenModel):
    """Largest distances of a feature's values, evaluation split against training split.

    A training split with fewer negatives (keep_negatives) is at some distance from the evaluation split as it is.
    """

    l_infinity: Share | None = None
    """Features of ids: the largest difference of a value's share among the values."""
    jensen_shannon: Share | None = None
    """Numbers, vectors (all their floats together): Jensen-Shannon divergence of the distributions of the values, base
    2: 0 for equal ones, 1 for disjoint ones."""
    missing_share: Share | None = None
    """Largest difference of the shares of examples without the feature."""


class Drift(FrozenModel):
    """The gate on the input, before anything is trained on it."""

    action: Literal["stop", "warn"]
    """`stop`: the run fails, naming every feature out of bounds. `warn`: a note in the run's summary."""
    every: DriftBounds | None = None
    """Bounds of the features without their own; `l_infinity` binds ids, `jensen_shannon` numbers, and neither times."""
    features: Annotated[dict[Name, DriftBounds], Field(min_length=1)] | None = None

    def bounds_of(self, feature: str, measures: Collection[Measure]) -> DriftBounds:
        """Returns a feature's bounds: its own, or those of every feature as far as `measures_of` the feature go."""
        own = (self.features or {}).get(feature)
        if own is not None or self.every is None:
            return own or DriftBounds()
        return DriftBounds(**{measure: getattr(self.every, measure) for measure in measures})
