"""Limits of values: the range of times, the length of lists, the size of ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sangam.components.logs.rows.times import TimeRange, ranges_of
from sangam.schemas.parts.columns import TimeKind
from sangam.schemas.spec.data import Parts


@dataclass(frozen=True)
class Limits:
    """The limits of rows; by default none.

    Attributes:
        times: allowed ranges, by kind of time.
        drops_rows: drop rows with times outside their range; otherwise the times are clipped.
        max_list_length: maximum length of lists that are not vectors.
        max_id_bytes: maximum bytes of string ids.
    """

    times: Mapping[TimeKind, TimeRange] = field(default_factory=dict)
    drops_rows: bool = False
    max_list_length: int | None = None
    max_id_bytes: int | None = None


def limits_of(logs: Parts, day: str | None) -> Limits:
    """Returns the spec's limits for the rows of a day; None for logs without days."""
    return Limits(
        times=ranges_of(logs, day),
        drops_rows=logs.times.outside == "drop",
        max_list_length=logs.max_list_length,
        max_id_bytes=logs.max_id_bytes,
    )
