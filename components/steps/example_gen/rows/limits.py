"""What values may be at most: times within their range, lists and ids of a bounded size."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.steps.example_gen.rows.times import TimeRange, ranges_of
from schemas.derived.columns import TimeKind
from schemas.spec.data import Logs


@dataclass(frozen=True)
class Limits:
    """Of a run. Without arguments there are none.

    Attributes:
        times: where times must lie.
        drops_rows: whose times lie elsewhere; otherwise these are clipped.
        max_list_length: of lists that are not all of one length.
        max_id_bytes: of ids that are texts.
    """

    times: Mapping[TimeKind, TimeRange] = field(default_factory=dict)
    drops_rows: bool = False
    max_list_length: int | None = None
    max_id_bytes: int | None = None


def limits_of(logs: Logs, date: str) -> Limits:
    """Returns what is declared for a run of `date`.

    Raises:
        UserError: for a date that is none.
    """
    return Limits(
        times=ranges_of(logs, date),
        drops_rows=logs.times.outside == "drop",
        max_list_length=logs.max_list_length,
        max_id_bytes=logs.max_id_bytes,
    )
