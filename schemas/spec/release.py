"""Evaluation, gates, and where a blessed model is pushed."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, Name, PositiveInt
from schemas.spec.metrics import Metric
from schemas.spec.patterns import FilePattern

NotNegative = Annotated[float, Field(ge=0)]


class Grouping(FrozenModel):
    """GAUC: the AUC within each group, averaged over groups that have both classes (Zhou et al., KDD 2018, eq. 6)."""

    by: Name
    """A feature of kind `id`, or a key: examples with one value are a group."""
    weigh: Literal["examples", "positives", "groups"] = "examples"
    """Weight of a group in the mean; `groups`: all equal."""


class Listing(FrozenModel):
    """NDCG and recall at k: the examples with one value of `by` are a list, ranked by the score."""

    by: Name
    """A feature of kind `id`, or a key."""
    k: Annotated[tuple[Annotated[int, Field(gt=0, le=9999)], ...], Field(min_length=1)]


class Confidence(FrozenModel):
    """Intervals by the Poisson bootstrap (Chamandy et al., 2012): percentiles of metrics over re-weighted examples."""

    replicates: Annotated[int, Field(ge=0, le=1000)] = 100
    """0: no intervals."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    by: Name | None = None
    """Feature of kind `id`, or key, whose examples are drawn together, because those of one user are not independent.
    Left out: every example is drawn by itself."""


class Evaluation(FrozenModel):
    """What the evaluator measures."""

    slices: tuple[tuple[Name, ...], ...] = ()
    """Each slice is a list of features of kind `id`, or keys; metrics are computed per value or combination."""
    new_ids: tuple[Name, ...] | None = None
    """Features of kind `id`, each with a slice of the examples whose id has no row in the model. Left out: all."""
    group: Grouping | None = None
    list: Listing | None = None
    confidence: Confidence = Confidence()
    min_slice_examples: PositiveInt = 100
    """A gate does not judge a slice of fewer examples."""


class Gate(FrozenModel):
    """Bounds of one metric of one task: on all examples, or on a slice.

    Give at least one bound. `at_least` and `at_most` bound the metric, together as a band; the others bound its change
    from the last blessed model, scored on the same examples.
    """

    task: Name
    metric: Metric
    slice: Annotated[dict[Name, str | int], Field(min_length=1)] | None = None
    """Feature to value: judges this slice."""
    each: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Features: judges every slice by their values."""
    new_id: Name | None = None
    """Feature: judges the examples whose id has no row in the model."""
    at_least: float | None = None
    at_most: float | None = None
    max_drop: NotNegative | None = None
    """Largest decrease, if higher is better."""
    max_rise: NotNegative | None = None
    """Largest increase, if lower is better."""
    min_gain: NotNegative | None = None
    """Smallest improvement: an increase if higher is better, a decrease if lower is."""
    judge: Literal["point", "bound"] = "point"
    """`bound`: judges the worse end of the confidence interval, not only the value."""

    @property
    def is_relative(self) -> bool:
        """Whether the gate compares with the blessed model."""
        return any(bound is not None for bound in (self.max_drop, self.max_rise, self.min_gain))


class DirectoryPush(FrozenModel):
    """A folder of numbered versions for TensorFlow Serving."""

    kind: Literal["directory"]
    path: FilePattern
    """Relative to the pipeline root."""


class NoPush(FrozenModel):
    """Only train and judge."""

    kind: Literal["none"]


Push = Annotated[DirectoryPush | NoPush, Field(discriminator="kind")]
