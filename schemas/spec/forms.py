"""Forms of columns in the files that are no numbers or ids yet: times, codes, thresholds, numbers as text."""

import zoneinfo
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sangam.schemas.parts.base import FrozenModel


def _is_zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be a time zone of the IANA database, as in 'Europe/London' or 'UTC'") from None
    return name


Zone = Annotated[str, AfterValidator(_is_zone)]
"""A time zone of the IANA database."""
TimeUnit = Literal["s", "ms", "us", "ns"]


class TimeForm(FrozenModel):
    """Times, which become seconds since 1970: timestamps, dates, texts in ISO 8601 or another format, or numbers."""

    kind: Literal["time"]
    unit: TimeUnit | None = None
    """Unit of numbers since 1970. Left out: the column has timestamps, dates or texts."""
    format: Annotated[str, Field(min_length=2)] | None = None
    """Format of texts, as for strptime, for example `%d/%m/%Y %H:%M`. Left out: ISO 8601."""
    zone: Zone = "UTC"
    """Time zone of timestamps and texts without one. Of a time that clocks show twice it is the first; one that they
    skip becomes the moment of the change."""


class CodesForm(FrozenModel):
    """Texts that stand for numbers."""

    kind: Literal["codes"]
    values: Annotated[dict[str, float], Field(min_length=1)]
    """Number of each text, for example `{"yes": 1, "no": 0}`; another text is an error. Booleans are `true` and
    `false`, integers their digits."""


class ThresholdForm(FrozenModel):
    """Numbers that become 1 from a threshold on, and 0 below."""

    kind: Literal["threshold"]
    at_least: float
    """Least number that becomes 1, for example 4 of 5 stars."""


class NumberForm(FrozenModel):
    """Numbers as text in the notation of a country."""

    kind: Literal["number"]
    decimal: Literal[".", ","] = ","
    """Mark before the decimals."""
    thousands: Literal[".", ",", " ", "'"] | None = None
    """Mark between thousands, which is removed."""


Form = Annotated[TimeForm | CodesForm | ThresholdForm | NumberForm, Field(discriminator="kind")]
