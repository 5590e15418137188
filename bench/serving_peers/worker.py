"""A contestant's process: it takes turns from its standard input. Needs NumPy alone, in either environment."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Call = Callable[[], Any]
"""One request, answered."""
SIZES = (200, 2_000)
"""Candidates of a request."""
TOLERANCE = 1e-5
_WARM = 5


def take_turns(calls: Callable[[int], Sequence[Call]]) -> None:
    """Answers each line, `[candidates, seconds]`, with the numbers of `measure`; warms up before the first one.

    Args:
        calls: returns the requests of so many candidates.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Libraries print to standard output.
    by_size = {size: calls(size) for size in SIZES}
    for of_size in by_size.values():
        measure(of_size, 0, time.process_time)
    print("ready", file=answers)
    for line in sys.stdin:
        candidates, seconds = json.loads(line)
        print(json.dumps(measure(by_size[candidates], seconds, time.process_time)), file=answers)


def measure(
    calls: Sequence[Call], seconds: float, processor_s: Callable[[], float], *, warm: int = _WARM
) -> dict[str, Any]:
    """Answers requests in turn for so many seconds; returns each one's milliseconds, and the processor's seconds."""
    for number in range(warm):
        calls[number % len(calls)]()
    taken_ms: list[float] = []
    processor, end = processor_s(), time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        calls[len(taken_ms) % len(calls)]()
        taken_ms.append((time.perf_counter() - begun) * 1e3)
    return {"ms": taken_ms, "processor_s": processor_s() - processor}


def refuse_other_scores(name: str, scores: NDArray[Any], expected: NDArray[Any]) -> None:
    """Ends the process unless the scores are the server's."""
    difference = float(np.abs(scores - expected).max()) if scores.shape == expected.shape else np.inf
    if not difference <= TOLERANCE:
        raise SystemExit(f"{name}: has other scores than the server (got a difference of {difference:.2g})")
