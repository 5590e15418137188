"""What a sequence knows of each of its events besides the id: further ids, amounts and times."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import ColumnName, FrozenModel, Name, PositiveFloat
from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec.buckets import bucket_starts
from sangam.schemas.spec.feature_bases import NumberType


class EventId(FrozenModel):
    """A further id of each event, such as its action, with a row of its own."""

    kind: Literal["id"]
    column: ColumnName | None = None
    """Column of the logs, with one value for each event. Left out: the column with this name."""
    type: IdType
    """Type of the ids in the logs."""
    table: Name
    """Table with a row per id; it has the dimension of the sequence's table."""


class EventAmount(FrozenModel):
    """A number of each event, such as its duration, with a learned vector for its bucket."""

    kind: Literal["amount"]
    column: ColumnName | None = None
    """Column of the logs, with one value for each event. Left out: the column with this name."""
    type: NumberType = "float"
    """Type of the numbers in the logs."""
    unit: PositiveFloat = 1.0
    """Amount u that is small: bucket b starts at u (2^(b/2) - 1). Amounts below 0 are in bucket 0."""


class EventTimes(FrozenModel):
    """The time of each event, with a learned vector for the bucket of its age in seconds: bucket b starts at
    2^(b/2) - 1. An event after the row's time has age 0."""

    column: ColumnName
    """Column with the times of the events, in seconds since 1970 (UTC)."""
    at: ColumnName
    """Column with the time of the row, in seconds since 1970 (UTC)."""


EventPart = Annotated[EventId | EventAmount, Field(discriminator="kind")]


def num_position_buckets(max_length: int) -> int:
    """Returns the number of buckets that positions of a list reach.

    >>> num_position_buckets(1), num_position_buckets(4096)
    (1, 25)
    """
    return 1 + sum(start <= max_length - 1 for start in bucket_starts())
