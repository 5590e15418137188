"""What became of the requests of a load."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sangam.components.load.offering import OK, TOO_LATE, Sent

_SHED = ("RESOURCE_EXHAUSTED", TOO_LATE)
"""Codes by which a server refuses what it cannot answer in time."""


@dataclass(frozen=True)
class Result:
    """The outcome of a load.

    Attributes:
        seconds: duration of the arrivals.
        sent: number of requests.
        answered: those with an answer before their deadline.
        shed: those that the server refused as it was busy, or did not answer before their deadline.
        failed: all others.
        codes: number of requests by code.
        p50_ms: of the answered ones, from the time at which they were to be sent; None without any.
        p90_ms: the same.
        p99_ms: the same.
        max_ms: the same.
        candidates_per_s: candidates of the answered requests, by second.
        late_p99_ms: 99th percentile of how late this process sent a request; None without any.
    """

    seconds: float
    sent: int
    answered: int
    shed: int
    failed: int
    codes: dict[str, int]
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    candidates_per_s: float
    late_p99_ms: float | None


def result_of(sent: Sequence[Sent], *, seconds: float, candidates: float) -> Result:
    """Returns the outcome of requests.

    Args:
        sent: the requests.
        seconds: duration of the arrivals.
        candidates: mean number of candidates of a request.
    """
    codes = Counter(each.code for each in sent)
    shed = sum(codes[code] for code in _SHED)
    times = _percentiles([each.seconds for each in sent if each.code == OK], (50, 90, 99, 100))
    [late] = _percentiles([each.late_s for each in sent], (99,))
    return Result(
        seconds=seconds,
        sent=len(sent),
        answered=codes[OK],
        shed=shed,
        failed=len(sent) - codes[OK] - shed,
        codes=dict(sorted(codes.items())),
        p50_ms=times[0],
        p90_ms=times[1],
        p99_ms=times[2],
        max_ms=times[3],
        candidates_per_s=codes[OK] * candidates / seconds,
        late_p99_ms=late,
    )


def _percentiles(seconds: Sequence[float], shares: Sequence[int]) -> list[float | None]:
    """Returns percentiles in milliseconds; p99 of fewer than a hundred times is the longest."""
    if not seconds:
        return [None] * len(shares)
    return [float(each) for each in np.percentile(np.array(seconds) * 1e3, shares, method="higher")]
