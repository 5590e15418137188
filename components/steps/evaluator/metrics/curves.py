"""The ROC and precision-recall curves of a binary task, and the distribution of its scores, in a few hundred numbers.

Fawcett: An introduction to ROC analysis, Pattern Recognition Letters 27, 2006, algorithm 1, from the counts by score.
"""

import numpy as np

from sangam.components.reports.curves import Curve
from sangam.components.steps.evaluator.metrics.totals_histogram import BUCKETS_PER_UNIT, Floats, Histogram, Ints, ratio

_POINTS = 200
"""Points of a curve, at equal distances of the sum of both rates."""
_BINS = 40


def curve_of(histogram: Histogram) -> Curve | None:
    """Returns the curves of the data; None where a class is missing."""
    histogram.settle()
    # Highest scores first.
    false, true = histogram.counts_K2R[::-1, :, 0].astype(np.float64).cumsum(axis=0).T
    if not len(false) or not false[-1] or not true[-1]:
        return None
    fpr, tpr = false / false[-1], true / true[-1]
    kept = np.unique(np.searchsorted(fpr + tpr, np.linspace(0.0, 2.0, _POINTS)).clip(max=len(fpr) - 1))
    precision = ratio(true, true + false)
    edges, counts = _distribution(histogram)
    return Curve(
        false_positive_rate=[0.0, *_short(fpr[kept])],
        true_positive_rate=[0.0, *_short(tpr[kept])],
        precision=[*_short(precision[kept[:1]]), *_short(precision[kept])],
        score_edges=_short(edges),
        negatives=_short(counts[0]),
        positives=_short(counts[1]),
    )


def _distribution(histogram: Histogram) -> tuple[Floats, Floats]:
    """Returns scores at equal distances of log-odds, [bins + 1], and the negatives and positives between, [2, bins]."""
    keys: Ints = histogram.keys_K << histogram.level
    edges = np.linspace(keys[0], keys[-1] + 1, _BINS + 1)
    counts = [np.histogram(keys, edges, weights=histogram.counts_K2R[:, each, 0])[0] for each in (0, 1)]
    return 1.0 / (1.0 + np.exp(-edges / BUCKETS_PER_UNIT)), np.stack(counts)


def _short(values: Floats) -> list[float]:
    """Returns numbers rounded to the precision of a chart."""
    return [float(f"{value:.5g}") for value in values.tolist()]
