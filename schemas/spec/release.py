"""Evaluation, gates, and the destination of a blessed model."""

import posixpath
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from sangam.schemas.parts import judging
from sangam.schemas.parts.base import FrozenModel, Name, PositiveFloat, PositiveInt
from sangam.schemas.parts.judging import Direction
from sangam.schemas.parts.kinds import AnyKind
from sangam.schemas.spec.patterns import FilePattern

NotNegative = Annotated[float, Field(ge=0)]


Metric = Annotated[judging.Metric, AnyKind(judging.Metric)]
Slice = Annotated[Name | judging.Slice, AnyKind(judging.Slice, word="name")]
"""A feature or key by name, or slices of one's own."""


class Grouping(FrozenModel):
    """GAUC: the AUC within each group, averaged over groups that have both classes (Zhou et al., KDD 2018, eq. 6)."""

    by: Name
    """Feature of kind `id`, or key: the examples with one value are a group."""
    weigh: Literal["examples", "positives", "groups"] = "examples"
    """Weight of a group in the mean: its number of examples or of positives, or (`groups`) 1."""


class Listing(FrozenModel):
    """NDCG, recall, hit rate and MRR at k: the examples with one value of `by` are a list, ranked by the score."""

    by: Name
    """Feature of kind `id`, or key: the examples with one value are a list."""
    k: Annotated[tuple[Annotated[int, Field(gt=0, le=9999)], ...], Field(min_length=1)]
    """Numbers of first examples of a list that are measured."""


class Confidence(FrozenModel):
    """Intervals by the Poisson bootstrap (Chamandy et al., 2012): percentiles of metrics over re-weighted examples."""

    replicates: Annotated[int, Field(ge=0, le=1000)] = 100
    """Number of re-weighted samples; 0: no intervals."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level of the intervals."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of the samples."""
    by: Name | None = None
    """Feature of kind `id`, or key: the examples with one value, such as those of one user, get one weight together.
    Left out: each example gets its own."""


class Evaluation(FrozenModel):
    """Measurements of the evaluator."""

    metrics: dict[Name, Metric] = Field(default_factory=dict)
    """Metrics of your own, by name; docs/parts.md. Each task of a kind that they are for has them."""
    slices: tuple[tuple[Slice, ...], ...] = ()
    """Lists of features of kind `id`, or keys; each value or combination of a list is a slice with its own metrics. A
    mapping with `kind` is one of your own; docs/parts.md."""
    new_ids: tuple[Name, ...] | None = None
    """Features of kind `id`, each with a slice of the examples whose id has no row in the model. Left out: all."""
    group: Grouping | None = None
    """Groups for the metric GAUC. Left out: no GAUC."""
    list: Listing | None = None
    """Lists for NDCG, recall, hit rate and MRR at k. Left out: none of them."""
    confidence: Confidence = Confidence()
    """Confidence intervals of the metrics."""
    min_slice_examples: PositiveInt = 100
    """Fewest examples of a slice that a gate judges."""
    leaks: Literal["note", "refuse"] = "note"
    """What follows if the AUC of a binary task, or of one column alone, is above 0.99, as if a feature were known only
    after the event: a note, or (`refuse`) a gate that fails."""

    @property
    def directions(self) -> dict[str, Direction]:
        """The directions of the metrics that the spec declares."""
        return {name: metric.direction for name, metric in self.metrics.items()}

    @property
    def sliced_by(self) -> dict[Name, judging.Slice]:
        """The slices of one's own, by name."""
        return {name_of(part): part for names in self.slices for part in names if isinstance(part, judging.Slice)}

    @property
    def slice_names(self) -> tuple[tuple[Name, ...], ...]:
        """The lists of slices by name."""
        return tuple(tuple(map(name_of, names)) for names in self.slices)


def name_of(part: Name | judging.Slice) -> Name:
    """Returns the name of a part of a slice in reports and gates."""
    return part if isinstance(part, str) else part.name or part.kind


class Gate(FrozenModel):
    """Bounds of one metric of one task, on all examples or on a slice; at least one bound.

    `max_drop`, `max_rise` and `min_gain` compare with the last blessed model, scored on the same examples.
    """

    task: Name
    """Task that is judged."""
    metric: Name
    """Metric that is bounded, such as auc, ndcg_at_10 or one of `evaluation.metrics`; docs/evaluation.md."""
    slice: Annotated[dict[Name, str | int], Field(min_length=1)] | None = None
    """Slice to judge, as a mapping of features to values. Left out: all examples."""
    each: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Features or keys; every slice by their values is judged."""
    new_id: Name | None = None
    """Feature of kind `id`; the examples whose id has no row in the model are judged."""
    at_least: float | None = None
    """Lowest allowed value."""
    at_most: float | None = None
    """Highest allowed value."""
    max_drop: NotNegative | None = None
    """Largest decrease from the last blessed model, for metrics where higher is better."""
    max_rise: NotNegative | None = None
    """Largest increase from the last blessed model, for metrics where lower is better."""
    min_gain: NotNegative | None = None
    """Smallest improvement over the last blessed model: an increase or a decrease, as the metric requires."""
    judge: Literal["point", "bound"] = "point"
    """Value that must be within the bounds: the metric, or (`bound`) the worse end of its confidence interval."""

    @property
    def is_relative(self) -> bool:
        """Whether the gate compares with the blessed model."""
        return any(bound is not None for bound in (self.max_drop, self.max_rise, self.min_gain))


class PriceGate(FrozenModel):
    """Bound on what a candidate costs a server more than with the live version, both measured in the serving check.

    It needs `cost.serving_core_hour`.
    """

    serving: Literal["price"]
    """What is bounded."""
    max_increase: NotNegative
    """Largest increase, as a share: 0.1 is a tenth more processor time a candidate."""


class SkewGate(FrozenModel):
    """Bound on what servers saw and scored otherwise than training, in a sample of the requests of the run's date.

    It is judged in the serving check; a date without logged requests is noted.
    """

    skew: Literal["features", "scores"]
    """What is compared. `features`: those of the log with those that the spec's tables give, as of each request's time.
    `scores`: those of the log with those that the logged version gives again."""
    at_most: Annotated[float, Field(ge=0, lt=1)]
    """Largest share that may differ of the values of any column, or of the scores of any task."""
    log: FilePattern | None = None
    """Folder of the log of requests, relative to the data folder. Left out: `data.log`."""
    requests: PositiveInt = 1000
    """Size of the sample."""


def _which(gate: Any) -> str:
    if isinstance(gate, Mapping):
        return next((kind.__name__ for key, kind in _OTHERS.items() if key in gate), Gate.__name__)
    return type(gate).__name__


_OTHERS = {"serving": PriceGate, "skew": SkewGate}
"""The gates that are not of a metric, by the key that only they have."""

AnyGate = Annotated[
    Annotated[Gate, Tag("Gate")] | Annotated[PriceGate, Tag("PriceGate")] | Annotated[SkewGate, Tag("SkewGate")],
    Discriminator(_which),
]


class DirectoryPush(FrozenModel):
    """A folder of numbered versions for TensorFlow Serving."""

    kind: Literal["directory"]
    path: FilePattern
    """Folder, relative to the pipeline root; or an address on an object store, `s3://...` or `gs://...`."""
    after: Literal["shadow"] | None = Field(default=None, exclude_if=lambda after: after is None)
    """What a version must pass before it answers. `shadow`: it waits in the shadow of the live one, with
    `serving.shadow`, and `sangam promote` makes it live or drops it; docs/promotion.md. A first version, with nothing
    live, is live at once. Left out: a version answers as soon as it is pushed."""
    hours: PositiveFloat = Field(default=20.0, exclude_if=lambda hours: hours == 20.0)
    """With `after`: hours from the push until a version becomes live. One that is undecided then waits as long again,
    and is dropped. Fewer than between two runs: a newer version takes the place of one that waits."""
    judge: Literal["point", "bound"] = Field(default="point", exclude_if=lambda judge: judge == "point")
    """With `after`: value that must be within the bounds for a version to become live: what was measured, or (`bound`)
    the worse end of its interval. It is always dropped by the better end."""
    max_auc_drop: NotNegative = Field(default=0.002, exclude_if=lambda drop: drop == 0.002)
    """With `after`: largest decrease of a binary task's AUC from the live version's, on the same answers."""
    max_calibration_error: NotNegative = Field(default=0.1, exclude_if=lambda error: error == 0.1)
    """With `after`: largest |ln(predicted / observed)|, 0.1 for a tenth; a larger one is allowed if the live version's
    is no smaller."""
    least_users: Annotated[int, Field(ge=2)] = Field(default=200, exclude_if=lambda least: least == 200)
    """With `after`: fewest users that are judged; fewest requests, if `evaluation.confidence.by` names no user."""
    least_positives: PositiveInt = Field(default=100, exclude_if=lambda least: least == 100)
    """With `after`: fewest positives, and negatives, of a binary task that are judged; of others, fewest examples."""
    lateness_s: Annotated[int, Field(ge=0)] = Field(default=3600, exclude_if=lambda lateness: lateness == 3600)
    """With `after`: seconds from the end of an answer's window until the files of its actions are there."""

    @model_validator(mode="after")
    def _has_effect(self) -> "DirectoryPush":
        needless = self.model_fields_set - {"kind", "path", "after"}
        if self.after is None and needless:
            raise ValueError(f"{min(needless)}: has no effect without `after: shadow`; remove it, or add that")
        return self

    @property
    def is_on_store(self) -> bool:
        """Whether the folder is on an object store."""
        return "://" in self.path

    @property
    def folder(self) -> str:
        """The path without needless parts."""
        scheme, mark, rest = self.path.rpartition("://")
        return f"{scheme}{mark}{posixpath.normpath(rest)}"


class NoPush(FrozenModel):
    """No push: the model is only trained and judged."""

    kind: Literal["none"]


Push = Annotated[DirectoryPush | NoPush, Field(discriminator="kind")]
