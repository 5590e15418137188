"""The times at which requests are to be sent."""

import random
from collections.abc import Iterator


def arrivals(rate: float, seconds: float, *, seed: int, evenly: bool = False) -> Iterator[float]:
    """Yields the times of requests from 0 to `seconds`: a Poisson process, or with equal gaps."""
    gaps = random.Random(seed)
    at = 0.0
    while True:
        at += 1.0 / rate if evenly else gaps.expovariate(rate)
        if at >= seconds:
            return
        yield at
