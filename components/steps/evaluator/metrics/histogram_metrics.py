"""AUC, average precision and calibration from the counts of a histogram, of the data and of each replicate.

Arrays carry shape suffixes: K buckets by rising score, R replicates, T ends of tenths.
"""

from dataclasses import dataclass

import numpy as np

from sangam.components.steps.evaluator.metrics.totals_histogram import Floats, Histogram, Ints, ratio

NUM_CALIBRATION_BUCKETS = 10
_STEPS = 16
"""Buckets whose running sums are computed beside those of other blocks."""


@dataclass(frozen=True)
class Ordered:
    """The counts of a histogram by rising score, and in all buckets up to each one.

    Attributes:
        negatives_KR: negatives.
        positives_KR: positives.
        negatives_to_KR: negatives of this bucket and those before.
        positives_to_KR: positives of this bucket and those before.
        scores_K: sum of the scores of the data.
    """

    negatives_KR: Floats
    positives_KR: Floats
    negatives_to_KR: Floats
    positives_to_KR: Floats
    scores_K: Floats

    @classmethod
    def of(cls, histogram: Histogram) -> "Ordered":
        """Returns the counts of a histogram."""
        histogram.settle()
        negatives_KR, positives_KR = (histogram.counts_K2R[:, each].astype(np.float64) for each in (0, 1))
        to_KR = _running_sums(negatives_KR), _running_sums(positives_KR)
        return cls(negatives_KR, positives_KR, *to_KR, histogram.scores_K)


def _running_sums(values_KR: Floats) -> Floats:
    """Returns the sums of each bucket and those before: `np.cumsum`, which adds one number after another."""
    size, replicates = values_KR.shape
    if replicates == 1 or size < _STEPS:
        return np.cumsum(values_KR, axis=0)
    whole = size - size % _STEPS
    blocks_BSR = values_KR[:whole].reshape(-1, _STEPS, replicates).copy()
    for step in range(1, _STEPS):
        blocks_BSR[:, step] += blocks_BSR[:, step - 1]
    blocks_BSR[1:] += np.cumsum(blocks_BSR[:-1, -1], axis=0)[:, None]
    sums_KR = np.empty_like(values_KR)
    sums_KR[:whole] = blocks_BSR.reshape(whole, replicates)
    sums_KR[whole:] = sums_KR[whole - 1] + np.cumsum(values_KR[whole:], axis=0)
    return sums_KR


def areas(counts: Ordered) -> tuple[Floats, Floats]:
    """Returns AUC and average precision per replicate, NaN without examples of both classes.

    The AUC is the share of (negative, positive) pairs in the right order, ties counted half (Fawcett, An introduction
    to ROC analysis, 2006, section 7). The average precision is the sum over thresholds of the gain in recall times the
    precision, as in scikit-learn, except that it is undefined here if a class is missing.
    """
    num_negatives, num_positives = counts.negatives_KR.sum(axis=0), counts.positives_KR.sum(axis=0)
    before = counts.negatives_to_KR - counts.negatives_KR / 2
    in_order = np.einsum("kr,kr->r", counts.positives_KR, before)
    above_positives = counts.positives_KR - counts.positives_to_KR
    above_positives += num_positives
    above = counts.negatives_KR - counts.negatives_to_KR
    above += num_negatives
    above += above_positives
    # Nothing is above where nothing is in the bucket either.
    np.divide(above_positives, above, out=above, where=above > 0)
    precise = np.einsum("kr,kr->r", counts.positives_KR, above)
    is_one_class = (num_negatives == 0) | (num_positives == 0)
    precision = np.where(is_one_class, np.nan, ratio(precise, num_positives))
    return ratio(in_order, num_negatives * num_positives), precision


def calibration_buckets(counts: Ordered) -> tuple[Floats, Floats, Floats]:
    """Returns sums of predictions, of positives and of examples by tenth of the examples, each [10, R].

    Tenths are by ascending score. Examples of equal score all belong to the tenth that contains their middle one.
    """
    rows_KR = counts.negatives_KR + counts.positives_KR
    so_far_KR = counts.negatives_to_KR + counts.positives_to_KR
    middles_RK = np.ascontiguousarray((so_far_KR - rows_KR / 2).T)
    borders_RT = rows_KR.sum(axis=0)[:, None] * np.arange(1, NUM_CALIBRATION_BUCKETS) / NUM_CALIBRATION_BUCKETS
    ends_TR = np.stack([np.searchsorted(*each) for each in zip(middles_RK, borders_RT, strict=True)], axis=1)
    # All examples of a bucket may have weight 0.
    predictions_KR = rows_KR * ratio(counts.scores_K, rows_KR[:, 0], empty=0.0)[:, None]
    sums_KR = (_running_sums(predictions_KR), counts.positives_to_KR, so_far_KR)
    predictions, positives, rows = (_between(each, ends_TR) for each in sums_KR)
    return predictions, positives, rows


def _between(so_far_KR: Floats, ends_TR: Ints) -> Floats:
    """Returns sums of buckets, from one end to the next one, of cumulative sums: [1 + T, R]."""
    if not len(so_far_KR):
        return np.zeros((1 + len(ends_TR), so_far_KR.shape[1]))
    before_TR = np.where(ends_TR > 0, np.take_along_axis(so_far_KR, np.maximum(ends_TR - 1, 0), axis=0), 0.0)
    return np.diff(before_TR, axis=0, prepend=0.0, append=so_far_KR[-1:])
