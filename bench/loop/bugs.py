"""Bugs by which a server is told otherwise than the tables say, and the causes that must be named for them."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.loop.tables import Inputs

_ZONE_S = 5 * 3600


@dataclass(frozen=True)
class Bug:
    """One bug.

    Attributes:
        name: what went wrong.
        columns: columns that come out wrong.
        cause: kind of the cause, as `sangam skew` calls it.
        change: returns the inputs as they are sent; None: the counts are those of the hour in which the bug began.
    """

    name: str
    columns: tuple[str, ...]
    cause: str
    change: Callable[[Inputs], Inputs] | None


def _moved(values: list[object]) -> list[object]:
    return [*values[1:], *values[:1]]


BUGS = (
    Bug(
        "a duration in milliseconds",
        ("duration_s",),
        "unit",
        lambda sent: sent | {"duration_s": [1000 * each for each in sent["duration_s"]]},
    ),
    Bug(
        "views in the place of clicks, and clicks in that of views",
        ("clicks", "views"),
        "swapped column",
        lambda sent: sent | {"views": sent["clicks"], "clicks": sent["views"]},
    ),
    Bug("counts that are not updated any more", ("clicks", "views"), "stale table", None),
    Bug(
        "a time of day of another zone",
        ("posted_at",),
        "time zone",
        lambda sent: sent | {"posted_at": [each + _ZONE_S for each in sent["posted_at"]]},
    ),
    Bug(
        "no language",
        ("language",),
        "default in place of a value",
        lambda sent: sent | {"language": ["unknown"]},
    ),
    Bug(
        "the topic of the next candidate",
        ("topic",),
        "candidates in another order",
        lambda sent: sent | {"topic": _moved(sent["topic"])},
    ),
    Bug(
        "a language in capitals",
        ("language",),
        "case",
        lambda sent: sent | {"language": [each.upper() for each in sent["language"]]},
    ),
)
