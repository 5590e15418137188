"""The kinds of features: numbers, ids, lists of ids, vectors, times, and what is made of two columns."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import ColumnName, FrozenModel, Name, PositiveInt
from schemas.spec.encoders import Encoder, MeanEncoder

IdType = Literal["string", "int"]
NumberType = Literal["float", "int"]
Normalization = Literal["none", "zscore", "minmax"]
Clip = Annotated[tuple[float, float], Field(min_length=2, max_length=2)]


class _OneColumn(FrozenModel):
    column: ColumnName | None = None
    """Column of the logs; the feature's own name when left out."""


class NumericFeature(_OneColumn):
    """A float. Clipped, then log1p, then normalized, in this order, each where it is declared."""

    kind: Literal["numeric"]
    type: NumberType = "float"
    clip: Clip | None = None
    log: bool = False
    normalize: Normalization = "zscore"
    """Statistics over the training split, computed by TensorFlow Transform."""
    missing: float | None = None
    """Value where the logs have none. Without it, a row without the value is an anomaly that stops the run."""
    at_serving: float | None = None
    """For a bias feature, such as the position on the page: the value that every prediction assumes, whatever the
    logs say. Trained on as logged."""


class BucketsFeature(_OneColumn):
    """A number by its quantile in the training split: the row of its bucket, or without a table a float in (0, 1)."""

    kind: Literal["buckets"]
    type: NumberType = "float"
    num_buckets: Annotated[int, Field(ge=2, le=1000)]
    """Of about equally many training examples each; fewer where values repeat."""
    table: Name | None = None
    """Whose rows the buckets have. Without one: (bucket + 0.5) / num_buckets."""
    missing: float | None = None
    """Value where the logs have none."""
    missing_row: bool = False
    """A missing value has a row of its own; it counts for no quantile."""
    at_serving: float | None = None
    """See `NumericFeature`."""


class IdFeature(_OneColumn):
    """One id per example; its embedding is one row of the table."""

    kind: Literal["id"]
    type: IdType
    table: Name
    missing: str | int | None = None
    """Id that stands for a missing value. Without it, a row without the id is an anomaly that stops the run."""
    missing_row: bool = False
    """A missing value has a row of its own, which no id shares."""
    at_serving: str | int | None = None
    """See `NumericFeature`."""


class CrossFeature(FrozenModel):
    """Two ids taken together; each pair that occurs has a row."""

    kind: Literal["cross"]
    columns: Annotated[dict[ColumnName, IdType | Literal["float"]], Field(min_length=2, max_length=2)]
    """Columns of the logs and the types of their ids, in any order. A float counts by its value, to six decimals: for
    numbers of few values, such as prices."""
    table: Name
    missing_row: bool = False
    """A pair that lacks an id has a row of its own. Without it, a row that lacks one is an anomaly."""


class IdsFeature(_OneColumn):
    """Any number of ids per example, in no particular order; their rows are combined. No ids: zeros."""

    kind: Literal["ids"]
    type: IdType
    table: Name
    combiner: Literal["sum", "mean", "sqrtn"]
    """With weights w: sum w x; that over sum w; that over sqrt(sum w^2). Without, every w is 1."""
    weights: ColumnName | None = None
    """Column with a float for each id, in the same order."""
    max_values: PositiveInt = 64
    """Values after these are cut off."""


class SequenceFeature(_OneColumn):
    """Ids in order, most recent first; at most `max_length` are kept. No ids: zeros."""

    kind: Literal["sequence"]
    type: IdType
    table: Name
    max_length: PositiveInt
    keep: Literal["first", "last"] = "first"
    """Which of more ids are kept; `last` for logs that have the most recent one last: they are turned round, so that
    the first position is always that of the most recent id."""
    encoder: Encoder = MeanEncoder(kind="mean")


class VectorFeature(_OneColumn):
    """A vector that another model has computed; a list of `dim` floats in the logs."""

    kind: Literal["vector"]
    dim: Annotated[int, Field(gt=0, le=4096)]
    normalize: Literal["none", "l2"] = "none"
    """`l2`: to length 1; a vector of zeros stays."""
    missing: float | None = None
    """Every float where the logs have no vector, before it is normalized. Without it, a row without the vector is an
    anomaly."""


class TimeFeature(_OneColumn):
    """Hour of the day or day of the week (0: Monday) of a time: a row each, or without a table a point on a circle."""

    kind: Literal["time"]
    part: Literal["hour", "weekday"]
    utc_offset_minutes: Annotated[int, Field(ge=-840, le=840)] = 0
    """Of the clock that counts; the column holds seconds since 1970 (UTC)."""
    table: Name | None = None
    """Whose rows the hours or days have. Without one: sine and cosine of 2 pi hour / 24, or of 2 pi weekday / 7."""
    missing_row: bool = False
    """A missing time has a row of its own."""


class AgeFeature(FrozenModel):
    """How old something was at the event, such as a post when it was shown. Negative ages count as 0."""

    kind: Literal["age"]
    since: ColumnName
    """Column with the beginning, seconds since 1970."""
    at: ColumnName
    """Column with the time of the event, seconds since 1970."""
    unit: Literal["seconds", "minutes", "hours", "days"] = "hours"
    clip: Clip | None = None
    """In the unit."""
    log: bool = True
    """log(1 + age)."""
    normalize: Normalization = "zscore"
    missing: float | None = None
    """Age where the logs lack one of both, in the unit. Without it, such a row is an anomaly."""


class MatchFeature(FrozenModel):
    """1 where an id is among the ids of a list, such as an item among those the user has bought; otherwise 0."""

    kind: Literal["match"]
    column: ColumnName
    """Column with the id; a row without it does not match."""
    among: ColumnName
    """Column with the list."""
    type: IdType


class Key(FrozenModel):
    """A column that evaluation groups or slices examples by, such as a request's number, and that no model sees."""

    column: ColumnName | None = None
    """Column of the logs; the key's own name when left out."""
    type: IdType


EmbeddedFeature = IdFeature | IdsFeature | SequenceFeature
ListFeature = IdsFeature | SequenceFeature
"""Any number of ids."""
BiasFeature = NumericFeature | BucketsFeature | IdFeature
"""May have a value `at_serving`."""
OneIdFeature = IdFeature | CrossFeature
"""One id, always with a table; so have `BucketsFeature` and `TimeFeature` where one is declared."""
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
    | MatchFeature,
    Field(discriminator="kind"),
]
