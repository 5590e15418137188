"""Compares scores of the server with those of the trainer."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from sangam.components.reports.serving import Check

TOLERANCE = 1e-5
"""Largest difference from the trainer's scores, relative to 1 + |score|, the same as in the export's own check."""

Scores = Mapping[str, NDArray[np.generic]]
"""Task to [n, 1]."""


def wrong_outputs(served: Scores, tasks: Mapping[str, object], num_rows: int) -> list[str]:
    """Returns what is wrong with the names, shapes and dtypes of a signature's outputs."""
    problems = []
    missing, extra = sorted(set(tasks) - set(served)), sorted(set(served) - set(tasks))
    if missing:
        problems.append(f"no output {', '.join(missing)}")
    if extra:
        problems.append(f"an output {', '.join(extra)} that is no task")
    for task in tasks:
        if task not in served:
            continue
        scores = served[task]
        if scores.shape != (num_rows, 1):
            problems.append(f"{task} has the shape {list(scores.shape)}, not {[num_rows, 1]}")
        if scores.dtype != np.float32:
            problems.append(f"{task} is {scores.dtype}, not float32")
    return problems


def not_finite(served: Scores) -> dict[str, int]:
    """Returns how many scores of each task are NaN or infinite, without tasks that have none."""
    counts = {task: int(np.sum(~np.isfinite(_numbers(scores)))) for task, scores in served.items()}
    return {task: count for task, count in counts.items() if count}


def difference(served: Scores, expected: Scores) -> tuple[str, float]:
    """Returns the task that differs most, with max |a - b| / (1 + |b|); infinite if only one of a and b is finite.

    Tasks of the wrong shape are left to `wrong_outputs`.
    """
    gaps = {task: gap for task, gap in _gaps(served, expected)}
    worst = max(gaps, key=lambda task: gaps[task], default="")
    return worst, gaps.get(worst, 0.0)


def _gaps(served: Scores, expected: Scores) -> Iterator[tuple[str, float]]:
    for task, right in expected.items():
        if task not in served or served[task].shape != right.shape or not right.size:
            continue
        a, b = _numbers(served[task]), _numbers(right)
        with np.errstate(invalid="ignore"):
            gaps = np.abs(a - b) / (1.0 + np.abs(b))
        same = ~np.isfinite(a) & ~np.isfinite(b)
        gaps = np.where(same, 0.0, np.where(np.isfinite(gaps), gaps, np.inf))
        yield task, float(np.max(gaps))


def _numbers(scores: NDArray[np.generic]) -> NDArray[np.float64]:
    try:
        return np.asarray(scores, np.float64)
    except (TypeError, ValueError):
        return np.full(scores.shape, np.nan)


def scores_check(name: str, what: str, served: Scores, expected: Scores, than: str) -> Check:
    """Checks that the scores are as expected.

    Args:
        name: name of the check.
        what: the served scores, for the message.
        served: scores of the server.
        expected: expected scores of the same examples.
        than: the expected scores, for the message.
    """
    task, gap = difference(served, expected)
    passed = gap <= TOLERANCE
    if passed:
        reason = f"{what} differ from {than} by at most {gap:.2g} of 1 + |score|, within {TOLERANCE:g}"
    elif np.isfinite(gap):
        reason = f"{what} differ from {than} in task {task} by {gap:.3g} of 1 + |score|, more than {TOLERANCE:g}"
    else:
        reason = f"{what} and {than} are not finite at the same places in task {task}"
    return Check(name=name, passed=passed, reason=reason)
