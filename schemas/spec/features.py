"""Kinds of features: numbers, ids, lists of ids, vectors, times, and features of two columns."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sangam.schemas.parts import roles
from sangam.schemas.parts.base import ColumnName, FrozenModel, Name, PositiveFloat, PositiveInt
from sangam.schemas.parts.columns import Column, IdType, TimeKind
from sangam.schemas.parts.kinds import AnyKind
from sangam.schemas.spec.encoders import Encoder, MeanEncoder
from sangam.schemas.spec.events import EventId, EventPart, EventTimes
from sangam.schemas.spec.feature_bases import Clip, Missing, NumberFeature, NumberType, OneColumn


class NumericFeature(NumberFeature, OneColumn):
    """A number: clipped, then its logarithm taken, then normalized or binned; each step is optional."""

    kind: Literal["numeric"]
    type: NumberType = "float"
    """Type of the numbers in the logs."""
    clip: Clip | None = None
    """Lowest and highest value; numbers beyond them become the nearer one."""
    log: bool = False
    """Whether x becomes log(1 + x)."""
    missing: Missing | None = None
    """Replacement of a missing number; `learned`: 0, and another input of the model that is then 1. Left out: a row
    without the number is an anomaly that stops the run."""
    at_serving: float | None = None
    """Value of a bias feature, such as the position on the page, in every prediction. Training uses the logged
    value."""

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        return (Column(name=self.column or name, type=self.type, is_required=self.missing is None),)

    def width(self) -> int:
        """See `Feature`: the number, and whether it is missing."""
        return 2 if learns_missing(self) else 1


class BucketsFeature(OneColumn):
    """A number by its quantile in the training split: the row of its bucket, or without a table a float in (0, 1)."""

    kind: Literal["buckets"]
    type: NumberType = "float"
    """Type of the numbers in the logs."""
    num_buckets: Annotated[int, Field(ge=2, le=1000)]
    """Number of buckets with about equally many training examples; fewer if values repeat."""
    table: Name | None = None
    """Table with a row per bucket. Left out: the input is (bucket + 0.5) / num_buckets."""
    missing: float | None = None
    """Replacement of a missing number. Left out, and without `missing_row`: a row without the number is an anomaly that
    stops the run."""
    missing_row: bool = False
    """Whether missing numbers have a row of their own, and do not count in the quantiles."""
    at_serving: float | None = None
    """Value of a bias feature, such as the position on the page, in every prediction. Training uses the logged
    value."""

    def table_name(self) -> Name | None:
        """See `Feature`."""
        return self.table

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        required = self.missing is None and not self.missing_row
        return (Column(name=self.column or name, type=self.type, is_required=required),)


class IdFeature(OneColumn):
    """One id per example; its embedding is one row of the table."""

    kind: Literal["id"]
    type: IdType
    """Type of the ids in the logs."""
    table: Name
    """Table with a row per id."""
    missing: str | int | None = None
    """Replacement of a missing id. Left out, and without `missing_row`: a row without the id is an anomaly that stops
    the run."""
    missing_row: bool = False
    """Whether missing ids have a row of their own."""
    at_serving: str | int | None = None
    """Value of a bias feature, such as the position on the page, in every prediction. Training uses the logged
    value."""

    def table_name(self) -> Name | None:
        """See `Feature`."""
        return self.table

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        required = self.missing is None and not self.missing_row
        return (Column(name=self.column or name, type=self.type, is_required=required, is_id=True),)


class CrossFeature(roles.Feature):
    """A pair of ids; each pair that occurs has a row."""

    kind: Literal["cross"]
    columns: Annotated[dict[ColumnName, IdType | Literal["float"]], Field(min_length=2, max_length=2)]
    """Two columns of the logs with the types of their ids, in any order. A float, such as a price, is an id by its
    value to six decimals."""
    table: Name
    """Table with a row per pair."""
    missing_row: bool = False
    """Whether pairs with a missing id have a row of their own. Otherwise a row without one of the ids is an anomaly."""

    def table_name(self) -> Name | None:
        """See `Feature`."""
        return self.table

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        del name
        required = not self.missing_row
        return tuple(
            Column(name=column, type=kind, is_required=required, is_id=kind != "float")
            for column, kind in sorted(self.columns.items())
        )


class IdsFeature(OneColumn):
    """Any number of ids per example, in no particular order; their rows are combined. No ids: zeros."""

    kind: Literal["ids"]
    type: IdType
    """Type of the ids in the logs."""
    table: Name
    """Table with a row per id."""
    combiner: Literal["sum", "mean", "sqrtn"]
    """Combination of rows x with weights w (1 without `weights`). `sum`: sum w x. `mean`: (sum w x) / sum w. `sqrtn`:
    (sum w x) / sqrt(sum w^2)."""
    weights: ColumnName | None = None
    """Column with one float per id, in the same order."""
    max_values: PositiveInt = 64
    """Most ids of an example; longer lists keep their first ones."""

    def table_name(self) -> Name | None:
        """See `Feature`."""
        return self.table

    def is_list(self) -> bool:
        """See `Feature`."""
        return True

    def combined_by(self) -> roles.Combiner:
        """See `Feature`."""
        return self.combiner

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        ids = _ids(self.column or name, self.type)
        if self.weights is None:
            return (ids,)
        return ids, Column(name=self.weights, type="float", is_list=True, is_required=False, beside=(ids.name,))


class SequenceFeature(OneColumn):
    """Ids in order, most recent first; at most `max_length` are kept. No ids: zeros."""

    kind: Literal["sequence"]
    type: IdType
    """Type of the ids in the logs."""
    table: Name
    """Table with a row per id."""
    max_length: PositiveInt
    """Most ids of an example."""
    keep: Literal["first", "last"] = "first"
    """End of a longer list that is kept. `last` is for logs that end with the most recent id: the list is reversed, so
    that the first position is always the most recent id."""
    encoder: Encoder = MeanEncoder(kind="mean")
    """Encoder of the sequence as one vector."""
    beside: dict[Name, EventPart] = Field(default_factory=dict, exclude_if=lambda beside: not beside)
    """Further columns of the same events by name, such as their actions and durations: lists as long as the ids'. Their
    vectors are added to the row of the id."""
    times: EventTimes | None = Field(default=None, exclude_if=lambda times: times is None)
    """Times of the events. The vector of each one's age is added to the row of its id; encoders may read the ages."""
    positions: bool = Field(default=False, exclude_if=lambda positions: not positions)
    """Whether a learned vector for the bucket of an event's position is added to the row of its id: the most recent one
    is 0, and bucket b starts at 2^(b/2) - 1."""

    def table_name(self) -> Name | None:
        """See `Feature`."""
        return self.table

    def is_list(self) -> bool:
        """See `Feature`."""
        return True

    @property
    def adds_to_rows(self) -> bool:
        """Whether the vector of an event is more than the row of its id."""
        return bool(self.beside) or self.times is not None or self.positions

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`: the ids, the columns beside them, then the times of the events and of the row."""
        ids = _ids(self.column or name, self.type)
        read = [replace(ids, last_values=self.max_length if self.keep == "last" else 0)]
        aligned = Column(name="", type="int", is_list=True, is_required=False, beside=(ids.name,))
        for part, each in self.beside.items():
            read.append(replace(aligned, name=each.column or part, type=each.type, is_id=isinstance(each, EventId)))
        if self.times:
            read.append(replace(aligned, name=self.times.column, time="other", not_after=self.times.at))
            read.append(Column(name=self.times.at, type="int", time="event"))
        return tuple(read)


class VectorFeature(OneColumn):
    """A vector computed by another model; a list of `dim` floats in the logs."""

    kind: Literal["vector"]
    dim: Annotated[int, Field(gt=0, le=4096)]
    """Number of floats."""
    normalize: Literal["none", "l2"] = "none"
    """Scaling of the vector. `l2`: to length 1; a vector of zeros stays."""
    missing: float | None = None
    """Value of all floats of a missing vector, before `normalize`. Left out: a row without the vector is an anomaly
    that stops the run."""

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        column, required = self.column or name, self.missing is None
        return (Column(name=column, type="float", is_list=True, is_required=required, length=self.dim),)

    def width(self) -> int:
        """See `Feature`."""
        return self.dim


class TimeFeature(OneColumn):
    """Hour of the day or day of the week (0: Monday) of a time: a row each, or without a table a point on a circle."""

    kind: Literal["time"]
    part: Literal["hour", "weekday"]
    """Part of the time that the model sees."""
    utc_offset_minutes: Annotated[int, Field(ge=-840, le=840)] = 0
    """Local time minus UTC, in minutes; the column holds seconds since 1970 (UTC)."""
    table: Name | None = None
    """Table with a row per hour or day. Left out: sine and cosine of 2 pi hour / 24, or of 2 pi weekday / 7."""
    missing_row: bool = False
    """Whether missing times have a row of their own. Otherwise a row without the time is an anomaly."""

    def table_name(self) -> Name | None:
        """See `Feature`."""
        return self.table

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        return (Column(name=self.column or name, type="int", is_required=not self.missing_row, time="other"),)

    def width(self) -> int:
        """See `Feature`: a point on a circle."""
        return 2


class AgeFeature(NumberFeature):
    """An age at the time of the event, such as that of a post when shown. Negative ages count as 0."""

    kind: Literal["age"]
    since: ColumnName
    """Column with the start, in seconds since 1970 (UTC)."""
    at: ColumnName
    """Column with the time of the event, in seconds since 1970 (UTC)."""
    unit: Literal["seconds", "minutes", "hours", "days"] = "hours"
    """Unit of the age."""
    clip: Clip | None = None
    """Lowest and highest age, in `unit`; ages beyond them become the nearer one."""
    log: bool = True
    """Whether the age becomes log(1 + age)."""
    missing: Missing | None = None
    """Replacement, in `unit`, of an age without one of its times; `learned`: 0, and another input of the model that is
    then 1. Left out: a row without one of the times is an anomaly that stops the run."""

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        del name
        both: dict[str, TimeKind] = {self.since: "other", self.at: "event"}
        required = self.missing is None
        return tuple(Column(name=column, type="int", is_required=required, time=kind) for column, kind in both.items())

    def width(self) -> int:
        """See `Feature`: the age, and whether it is missing."""
        return 2 if learns_missing(self) else 1


class MatchFeature(roles.Feature):
    """1 if a list contains an id, such as the item among the user's purchases; otherwise 0."""

    kind: Literal["match"]
    column: ColumnName
    """Column with the id; a row without one does not match."""
    among: ColumnName
    """Column with the list of ids."""
    type: IdType
    """Type of the ids in the logs."""

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        del name
        one = Column(name=self.column, type=self.type, is_required=False, is_id=True)
        return one, _ids(self.among, self.type)


class _History(NumberFeature):
    """A number counted on the days before the row's day, never on that day."""

    by: Annotated[dict[ColumnName, IdType], Field(min_length=1, max_length=2)]
    """One column of the logs, or two as in a cross, with the types of their ids. A row without an id counts for none,
    and is itself treated like a new id."""
    days: Annotated[int, Field(gt=0, le=3660)] | None = None
    """Number of days before the row's day that count. Left out: those of the run's window."""
    clip: Clip | None = None
    """Lowest and highest value; numbers beyond them become the nearer one."""
    log: bool = False
    """Whether x becomes log(1 + x)."""
    missing: ClassVar[None] = None
    """Every row has a history, though it may be empty."""

    def reads(self, name: Name) -> Sequence[Column]:
        """See `Feature`."""
        del name
        return tuple(
            Column(name=column, type=kind, is_required=False, is_id=True) for column, kind in sorted(self.by.items())
        )


class RateFeature(_History):
    """The mean of a task's labels among earlier examples with these ids, smoothed: (sum + n prior) / (count + n)
    (Micci-Barreca: A preprocessing scheme for high-cardinality categorical attributes, SIGKDD Explorations 2001).
    Examples that are not in the task do not count."""

    kind: Literal["rate"]
    task: Name
    """Task whose labels are averaged."""
    smoothing: PositiveFloat = 20.0
    """Number of examples that the prior counts for: n."""
    prior: float | None = None
    """Value without any earlier example. Left out: the mean of all labels of the task on the same days."""


class CountFeature(_History):
    """The number of earlier examples with these ids."""

    kind: Literal["count"]


class Key(FrozenModel):
    """A column that only groups and slices examples in evaluation, such as a request's number; no model sees it."""

    column: ColumnName | None = None
    """Column of the logs. Left out: the column with the name of the key."""
    type: IdType
    """Type of the ids in the logs."""


ListFeature = IdsFeature | SequenceFeature
"""Features of any number of ids."""
HistoryFeature = RateFeature | CountFeature
"""Features of the days before a row's day."""
OneNumber = NumericFeature | AgeFeature | HistoryFeature
"""Features of one number, with an encoding."""
BiasFeature = NumericFeature | BucketsFeature | IdFeature
"""Features that may have `at_serving`."""
Feature = Annotated[roles.Feature, AnyKind(roles.Feature)]


def learns_missing(feature: Feature) -> bool:
    """Says whether the model has an input for missing numbers of the feature."""
    return isinstance(feature, OneNumber) and feature.missing == "learned"


def _ids(column: str, kind: IdType) -> Column:
    return Column(name=column, type=kind, is_list=True, is_required=False, is_id=True)


def replacement_of(feature: OneNumber | BucketsFeature) -> float:
    """Returns the replacement of a missing number of the feature; NaN without one."""
    return feature.missing if isinstance(feature.missing, float) else math.nan
