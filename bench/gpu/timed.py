"""Seconds of calls, one after the other. Needs nothing but Python: the peer's environment reads it."""

import statistics
import time
from collections.abc import Callable
from typing import Any


def timed(call: Callable[[], object], *, seconds: float, warm: int) -> list[float]:
    """Returns the seconds of each call.

    Args:
        call: is called at least twice.
        seconds: after which no call begins.
        warm: calls before, which are not measured.
    """
    for _ in range(warm):
        call()
    took: list[float] = []
    given_up = time.monotonic() + seconds
    while time.monotonic() < given_up or len(took) < 2:
        started = time.perf_counter()
        call()
        took.append(time.perf_counter() - started)
    return took


def spread(took: list[float]) -> dict[str, Any]:
    """Returns the median and the outer quartiles."""
    low, median, high = statistics.quantiles(took, n=4)
    return {"median_s": median, "quartiles_s": [low, high]}
