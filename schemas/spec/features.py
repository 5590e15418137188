"""The kinds of features: numbers, ids, lists of ids, vectors, times, and features of two columns."""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from typing_extensions import Self

from schemas.spec.base import ColumnName, FrozenModel, Name, PositiveFloat, PositiveInt
from schemas.spec.encoders import Encoder, MeanEncoder
from schemas.spec.encodings import Encoding, PiecewiseLinearEncoding, StandardEncoding

IdType = Literal["string", "int"]
ColumnType = Literal["float", "int", "string"]
"""Of a value in the logs."""
NumberType = Literal["float", "int"]
Normalization = Literal["none", "zscore", "minmax"]
Clip = Annotated[tuple[float, float], Field(min_length=2, max_length=2)]


class _OneColumn(FrozenModel):
    column: ColumnName | None = None
    """Column of the logs; the feature's own name when left out."""


Missing = float | Literal["learned"]
"""What replaces a missing number; `learned`: an input of the model that is 1 where it is missing, and the number 0."""


class NumberFeature(FrozenModel):
    """Whatever is one number before it becomes inputs of the model."""

    normalize: Normalization = "zscore"
    """Statistics over the training split. Without meaning for bins, which are statistics themselves."""
    encoding: Encoding = PiecewiseLinearEncoding(kind="piecewise_linear")
    """Left out: piecewise linear, which docs/quality.md compares; `standard` where `normalize` is given."""

    @model_validator(mode="after")
    def _standard_where_normalized(self) -> Self:
        if "normalize" in self.model_fields_set and "encoding" not in self.model_fields_set:
            # Frozen for everyone else.
            self.__dict__["encoding"] = StandardEncoding(kind="standard")
        return self

    @property
    def is_binned(self) -> bool:
        """Whether its statistics are the ends of bins."""
        return isinstance(self.encoding, PiecewiseLinearEncoding)

    @property
    def is_scaled(self) -> bool:
        """Whether its statistics are a scale."""
        return self.normalize != "none" and not self.is_binned

    @model_serializer(mode="wrap")
    def _without_what_is_not_meant(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Writes what `normalize` and `encoding` are read from again: one of them.

        The standard encoding has been written so since before there were others.
        """
        fields: dict[str, Any] = dump(self)
        if isinstance(self.encoding, StandardEncoding):
            fields.pop("encoding", None)
            fields["normalize"] = self.normalize
        if self.is_binned:
            fields.pop("normalize", None)
        return fields


class NumericFeature(NumberFeature, _OneColumn):
    """A float. Clipped, then log1p, then normalized or binned, as far as the spec says so."""

    kind: Literal["numeric"]
    type: NumberType = "float"
    clip: Clip | None = None
    log: bool = False
    missing: Missing | None = None
    """Replaces a missing value. Without it, a row without the value is an anomaly that stops the run."""
    at_serving: float | None = None
    """For a bias feature, such as the position on the page: the value that every prediction uses. Training uses the
    logged value."""


class BucketsFeature(_OneColumn):
    """A number by its quantile in the training split: the row of its bucket, or without a table a float in (0, 1)."""

    kind: Literal["buckets"]
    type: NumberType = "float"
    num_buckets: Annotated[int, Field(ge=2, le=1000)]
    """Each with about equally many training examples; fewer buckets if values repeat."""
    table: Name | None = None
    """Table with a row per bucket. Without one: (bucket + 0.5) / num_buckets."""
    missing: float | None = None
    """Replaces a missing value."""
    missing_row: bool = False
    """A missing value has a row of its own and does not count in the quantiles."""
    at_serving: float | None = None
    """See `NumericFeature`."""


class IdFeature(_OneColumn):
    """One id per example; its embedding is one row of the table."""

    kind: Literal["id"]
    type: IdType
    table: Name
    missing: str | int | None = None
    """Replaces a missing id. Without it, a row without the id is an anomaly that stops the run."""
    missing_row: bool = False
    """A missing id has a row of its own."""
    at_serving: str | int | None = None
    """See `NumericFeature`."""


class CrossFeature(FrozenModel):
    """Two ids taken together; each pair that occurs has a row."""

    kind: Literal["cross"]
    columns: Annotated[dict[ColumnName, IdType | Literal["float"]], Field(min_length=2, max_length=2)]
    """Columns of the logs and the types of their ids, in any order. A float is an id by its value, to six decimals: for
    numbers with few values, such as prices."""
    table: Name
    missing_row: bool = False
    """A pair with a missing id has a row of its own. Without this, such a row of the logs is an anomaly."""


class IdsFeature(_OneColumn):
    """Any number of ids per example, in no particular order; their rows are combined. No ids: zeros."""

    kind: Literal["ids"]
    type: IdType
    table: Name
    combiner: Literal["sum", "mean", "sqrtn"]
    """For weights w (1 without `weights`): sum w x; that over sum w; that over sqrt(sum w^2)."""
    weights: ColumnName | None = None
    """Column with one float per id, in the same order."""
    max_values: PositiveInt = 64
    """Longer lists are cut to their first values."""


class SequenceFeature(_OneColumn):
    """Ids in order, most recent first; at most `max_length` are kept. No ids: zeros."""

    kind: Literal["sequence"]
    type: IdType
    table: Name
    max_length: PositiveInt
    keep: Literal["first", "last"] = "first"
    """Which ids of a longer list are kept. `last` is for logs that end with the most recent id: the list is reversed,
    so that the first position is always the most recent id."""
    encoder: Encoder = MeanEncoder(kind="mean")


class VectorFeature(_OneColumn):
    """A vector computed by another model; a list of `dim` floats in the logs."""

    kind: Literal["vector"]
    dim: Annotated[int, Field(gt=0, le=4096)]
    normalize: Literal["none", "l2"] = "none"
    """`l2`: scaled to length 1; a vector of zeros stays."""
    missing: float | None = None
    """Every float of a missing vector, before normalizing. Without it, a row without the vector is an anomaly."""


class TimeFeature(_OneColumn):
    """Hour of the day or day of the week (0: Monday) of a time: a row each, or without a table a point on a circle."""

    kind: Literal["time"]
    part: Literal["hour", "weekday"]
    utc_offset_minutes: Annotated[int, Field(ge=-840, le=840)] = 0
    """Local time minus UTC; the column holds seconds since 1970 (UTC)."""
    table: Name | None = None
    """Table with a row per hour or day. Without one: sine and cosine of 2 pi hour / 24, or of 2 pi weekday / 7."""
    missing_row: bool = False
    """A missing time has a row of its own."""


class AgeFeature(NumberFeature):
    """An age at the time of the event, such as that of a post when shown. Negative ages count as 0."""

    kind: Literal["age"]
    since: ColumnName
    """Column with the start, seconds since 1970."""
    at: ColumnName
    """Column with the time of the event, seconds since 1970."""
    unit: Literal["seconds", "minutes", "hours", "days"] = "hours"
    clip: Clip | None = None
    """In the unit."""
    log: bool = True
    """log(1 + age)."""
    missing: Missing | None = None
    """Age, in the unit, if either time is missing. Without it, such a row is an anomaly."""


class MatchFeature(FrozenModel):
    """1 if a list contains an id, such as an item among those the user has bought; otherwise 0."""

    kind: Literal["match"]
    column: ColumnName
    """Column with the id; a row without it does not match."""
    among: ColumnName
    """Column with the list."""
    type: IdType


class _History(NumberFeature):
    """A number of what happened on the days before the row's own day, never on that day itself."""

    by: Annotated[dict[ColumnName, IdType], Field(min_length=1, max_length=2)]
    """Columns of the logs and the types of their ids: one, or the two of a cross. A row without one of them reads what
    an id reads that is seen for the first time, and counts for none."""
    days: Annotated[int, Field(gt=0, le=3660)] | None = None
    """How many days before the row's own day count. Left out: those of the run's window."""
    clip: Clip | None = None
    log: bool = False
    missing: ClassVar[None] = None
    """Every row has a history, though it may be empty."""


class RateFeature(_History):
    """The mean of a task's labels among earlier examples with these ids, smoothed: (sum + n prior) / (count + n)
    (Micci-Barreca: A preprocessing scheme for high-cardinality categorical attributes, SIGKDD Explorations 2001).
    Examples that are not in the task do not count."""

    kind: Literal["rate"]
    task: Name
    smoothing: PositiveFloat = 20.0
    """n: how many examples the prior counts for."""
    prior: float | None = None
    """Left out: the mean of all of the task's labels on the same days."""


class CountFeature(_History):
    """The number of earlier examples with these ids."""

    kind: Literal["count"]


class Key(FrozenModel):
    """A column, such as a request's number, only for grouping and slicing in evaluation; no model sees it."""

    column: ColumnName | None = None
    """Column of the logs; the key's own name when left out."""
    type: IdType


ListFeature = IdsFeature | SequenceFeature
"""Any number of ids."""
HistoryFeature = RateFeature | CountFeature
"""Made of the days before a row's own."""
OneNumber = NumericFeature | AgeFeature | HistoryFeature
"""One number, with an encoding."""
BiasFeature = NumericFeature | BucketsFeature | IdFeature
"""May have `at_serving`."""
Feature = Annotated[
    NumericFeature
    | BucketsFeature
    | IdFeature
    | CrossFeature
    | IdsFeature
    | SequenceFeature
    | VectorFeature
    | TimeFeature
    | AgeFeature
    | MatchFeature
    | RateFeature
    | CountFeature,
    Field(discriminator="kind"),
]


def learns_missing(feature: Feature) -> bool:
    """Says whether a missing number of the feature is an input of its own."""
    return isinstance(feature, OneNumber) and feature.missing == "learned"


def replacement_of(feature: OneNumber | BucketsFeature) -> float:
    """Returns what replaces a missing number of the feature; NaN where nothing does."""
    return feature.missing if isinstance(feature.missing, float) else math.nan
