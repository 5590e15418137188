"""Causes of differences between numbers."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.skew.pairs import Found, Pairs
from sangam.components.skew.values import Mask, numbers

Floats = NDArray[np.float64]

_UNITS = {
    1000.0: "as milliseconds for seconds",
    1e6: "as microseconds for seconds",
    1e9: "as nanoseconds for seconds",
    60.0: "as seconds for minutes",
    3600.0: "as seconds for hours",
    86_400.0: "as seconds for days",
    24.0: "as hours for days",
    7.0: "as days for weeks",
    100.0: "as percent for shares, or cents",
    1024.0: "as bytes for KiB",
    1024.0**2: "as bytes for MiB",
    -1.0: "another sign",
}
_DISTINCT, _DISTINCT_OF_KNOWN = 3, 2
_QUARTER_S, _MOST_ZONES_S = 900, 14 * 3600
"""Time zones are whole quarters of an hour, at most 14 hours from UTC."""
_LEAST_EPOCH_S, _MOST_EPOCH_S = 10**8, 10**10
"""Numbers from 1973 to 2286 are times, also in milliseconds."""
_ROUNDED = 2.0**-8
"""Greatest relative difference of a rounded value: that of bfloat16, of which float16 has less."""
_NEAR = 0.05
"""Greatest relative difference of a common ratio from that of its unit, since the rest of a division may be cut."""
_SAME = 1e-5
"""Greatest relative difference of equal values that have been multiplied in float32."""


def _unit(pairs: Pairs) -> Found | None:
    served, offline = numbers(pairs.served), numbers(pairs.offline)
    is_known = np.isfinite(served) & np.isfinite(offline)
    has_ratio = is_known & (served != 0) & (offline != 0)
    if not has_ratio.any():
        return None
    ratio = float(np.median(served[has_ratio] / offline[has_ratio]))
    best = Found("unit", np.zeros(len(served), bool), "")
    for factor, unit in ((ratio, ""), *_units_near(ratio)):
        # Where whole numbers are divided the rest is cut.
        rest = 1.0 if unit and abs(factor) < 1 and pa.types.is_integer(pairs.served.type) else 0.0
        expected = np.where(is_known, offline, 0) * factor
        explains = is_known & (np.abs(served - expected) <= np.maximum(rest, _SAME * np.abs(expected)))
        least = _DISTINCT_OF_KNOWN if unit else _DISTINCT
        if explains.sum() >= best.explains.sum() and len(np.unique(offline[explains])) >= least:
            best = Found("unit", explains, f"{factor:.6g} times the value of the logs{', ' if unit else ''}{unit}")
    return best if best.detail and abs(ratio - 1) > _ROUNDED else None


def _units_near(ratio: float) -> Iterator[tuple[float, str]]:
    """Yields the ratios of known units near one, and what they stand for."""
    for factor, unit in _UNITS.items():
        for known, text in ((factor, unit), (1 / factor, f"{unit}, reversed")):
            if abs(ratio / known - 1) < _NEAR:
                yield known, text


def _time_zone(pairs: Pairs) -> Found | None:
    served, offline = numbers(pairs.served), numbers(pairs.offline)
    is_known = np.isfinite(served) & np.isfinite(offline)
    if not is_known.any():
        return None
    for per_s in (1, 1000):
        if ((offline[is_known] >= _LEAST_EPOCH_S * per_s) & (offline[is_known] < _MOST_EPOCH_S * per_s)).all():
            shifts_s = (served - offline) / per_s
            return _shifted(shifts_s, is_known & (shifts_s % _QUARTER_S == 0) & (np.abs(shifts_s) <= _MOST_ZONES_S))
    is_hour = _within(served, 24) & _within(offline, 24)
    if not is_hour.all() or len(np.unique(offline)) < _DISTINCT:
        return None
    shifts = (served - offline + 12) % 24 - 12
    return _shifted(shifts * 3600, is_hour)


def _within(values: Floats, end: int) -> Mask:
    return (values >= 0) & (values < end) & (values == np.floor(values))


def _shifted(shifts_s: Floats, is_possible: Mask) -> Found | None:
    """Returns what one zone explains, also with summer time in a part of the year."""
    if not is_possible.any():
        return None
    found, counts = np.unique(shifts_s[is_possible], return_counts=True)
    shift_s = found[counts.argmax()]
    others = [other for other in (shift_s - 3600, shift_s + 3600) if other in found]
    second = max(others, key=lambda other: counts[found == other][0], default=shift_s)
    explains = is_possible & np.isin(shifts_s, [shift_s, second])
    hours = " or ".join(f"{each / 3600:+g}" for each in sorted({shift_s, second}))
    return Found("time zone", explains, f"{hours} hours")


def _rounded(pairs: Pairs) -> Found | None:
    served, offline = numbers(pairs.served), numbers(pairs.offline)
    is_known = np.isfinite(served) & np.isfinite(offline)
    for digits in range(-2, 5):
        rounded = np.where(is_known, np.round(offline, digits), 0)
        explains = is_known & (served.astype(np.float32) == rounded.astype(np.float32))
        if explains.all():
            return Found("rounded", explains, f"to {10.0**-digits:g}")
    for name, cut in (("the whole number below", np.floor), ("the whole number", np.trunc)):
        explains = is_known & (served == cut(np.where(is_known, offline, 0)))
        if explains.all():
            return Found("rounded", explains, f"to {name}")
    explains = is_known & (np.abs(served - offline) <= _ROUNDED * np.abs(offline))
    if not explains.any():
        return None
    most = np.max(np.abs(served - offline)[explains] / np.abs(offline[explains]))
    return Found("rounded", explains, f"by at most {most:.1g} of the value")


OF_NUMBERS = (_unit, _time_zone, _rounded)
