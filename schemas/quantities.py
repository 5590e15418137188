"""Numbers as text: rows by table and sizes on a command line; sizes, counts and durations in all output; JSON."""

import math
import re
from collections.abc import Mapping
from typing import Any

from sangam.schemas.errors import UserError

_NUMBER = re.compile(r"^(\d+(?:\.\d+)?(?:e\+?\d{1,2})?)\s*([a-z]*)$")
_ROWS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_BYTES = {
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)},
}
_MOST = 1e18
"""Largest number; larger ones are typing errors, and are not exact."""


def parse_rows(option: str, text: str) -> dict[str, int]:
    """Returns rows by table from `users=80e6,posts=55M`.

    Args:
        option: the name of the option, for errors.
        text: the option's value; may be empty.

    Raises:
        UserError: a part is not `table=number`, or a table occurs twice.
    """
    rows: dict[str, int] = {}
    for part in text.split(",") if text.strip() else ():
        table, equals, number = (piece.strip() for piece in part.partition("="))
        if not (table and equals):
            raise UserError(f"{option}: is not a list of table=rows (got '{part}'); write users=80e6,posts=55e6")
        value = _value(number, _ROWS)
        if value is None or value < 1 or value != int(value):
            raise UserError(f"{option}: is not a number of rows for '{table}' (got '{number}'); write 80e6 or 80M")
        if table in rows:
            raise UserError(f"{option}: gives table '{table}' twice (got '{text}'); give every table once")
        rows[table] = int(value)
    return rows


def parse_bytes(option: str, text: str) -> int:
    """Returns bytes from `64GB` (1000^3) or `64GiB` (1024^3).

    Raises:
        UserError: the number or the unit is missing.
    """
    value = _value(text, _BYTES)
    if value is None or value < 1:
        raise UserError(f"{option}: is not a size (got '{text}'); write a number and its unit, such as 64GB or 64GiB")
    return int(value)


def _value(text: str, units: dict[str, int]) -> float | None:
    """Returns number times unit, or None if the text is not a number with a unit."""
    match = _NUMBER.match(text.strip().lower().replace("_", ""))
    if match is None or match[2] not in units:
        return None
    value = round(float(match[1]) * units[match[2]], 6)
    return value if value <= _MOST else None


def shown_bytes(size: float) -> str:
    """Returns a size with three digits in decimal units: `13.1 GB`."""
    return _scaled(size, (" B", " kB", " MB", " GB", " TB", " PB"))


def shown_count(number: float) -> str:
    """Returns a number with three digits and a word: `6.63 billion`."""
    return _scaled(number, ("", " thousand", " million", " billion", " trillion", " quadrillion"))


def shown_number(number: float) -> str:
    """Returns a number with three digits and no exponent where it can: `0.95`, `374`, `22.8k`, `5.61M`."""
    size = abs(number)
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if 10**power <= size < 10 ** (power + 3) and size >= 10_000:
            return f"{number / 10**power:.3g}{letter}"
    return f"{number:.0f}" if 1000 <= size < 10_000 else f"{number:.3g}"


def shown_seconds(seconds: float, *, is_rough: bool = False) -> str:
    """Returns a duration in its two largest units: `0.4 s`, `52 s`, `2 min 37 s`, `1 h 02 min`.

    Args:
        seconds: duration.
        is_rough: whether it is an estimate, or goes on: then in whole seconds.
    """
    whole = max(0, round(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    if minutes:
        return f"{minutes} min {whole % 60:02d} s"
    return f"{whole} s" if is_rough or seconds >= 9.95 or seconds < 0.05 else f"{seconds:.1f} s"


def listed_counts(counts: Mapping[str, int]) -> str:
    """Returns counts by name as text: `1,200 label missing: like, 3 no version in items`."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def readable(document: Any) -> Any:
    """Returns a JSON document whose numbers are as long as they are known.

    A float has six digits, a large one three decimal places, so that times since 1970 keep their milliseconds. Whole
    numbers become integers: counts. NaN and infinity, which JSON lacks, become null.
    """
    match document:
        case float():
            return _known(document)
        case Mapping():
            return {str(key): readable(value) for key, value in document.items()}
        case list() | tuple():
            return [readable(value) for value in document]
        case _:
            return document


def _known(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    known = round(value, 3) if abs(value) >= 1000 else float(f"{value:.6g}")
    return int(known) if known.is_integer() and abs(known) < _MOST else known


def _scaled(number: float, units: tuple[str, ...]) -> str:
    # 999.6 rounds to 1.00 of the next unit.
    power = 0 if number < 999.5 else int(math.log10(number * 1000 / 999.5)) // 3
    power = min(power, len(units) - 1)
    scaled = number / 1000**power
    digits = 0 if power == 0 or scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{scaled:,.{digits}f}{units[power]}"
