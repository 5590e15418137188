"""Area under the ROC curve as a TFMA metric that stays precise for rare events and is undefined where it has no meaning.

TFMA's own AUC cuts [0, 1] into 10,000 equal buckets, whatever `num_thresholds` says: scores of an event that happens
once in 2,500 impressions share a dozen of them and the AUC is wrong in the third digit. It also reports 0 rather than
NaN when all labels are equal. Here the buckets have equal width in log-odds, which no monotone curve of the scores
needs more of.
"""

import math
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_types, metric_util

NAME = "auc"
BUCKETS_PER_UNIT = 10_000
"""Buckets per unit of log-odds: scores that share a bucket differ by less than 0.01 %."""
_SMALLEST = 1e-12
"""Scores are taken as at least this far from 0 and 1, far below what float32 tells apart from 1."""
_NOT_A_SCORE = "nan"

Counts = dict[Any, list[float]]
"""Bucket to [weight of negatives, weight of positives]; only the buckets met are held."""


def bucket(score: float) -> int | str:
    """Returns the bucket of a score in [0, 1]; buckets sort like scores."""
    if math.isnan(score):
        return _NOT_A_SCORE
    clipped = min(max(score, _SMALLEST), 1 - _SMALLEST)
    return math.floor(math.log(clipped / (1 - clipped)) * BUCKETS_PER_UNIT)


def area(counts: Counts) -> float:
    """Returns the share of (positive, negative) pairs in the right order, ties counted half.

    NaN if there are no positives, no negatives, or scores that are no numbers.

    Reference: Fawcett, An introduction to ROC analysis, 2006, section 7.
    """
    if _NOT_A_SCORE in counts:
        return math.nan
    below = ordered = positives = 0.0
    for key in sorted(counts):
        negative, positive = counts[key]
        ordered += positive * (below + negative / 2)
        below += negative
        positives += positive
    return ordered / (below * positives) if below and positives else math.nan


class RankAuc(metric_types.Metric):
    """Area under the ROC curve of a binary output, exact but for scores that differ by less than 0.01 %."""

    def __init__(self, name: str = NAME) -> None:
        """Names the metric."""
        super().__init__(metric_util.merge_per_key_computations(_computations), name=name)


metric_types.register_metric(RankAuc)


def _computations(
    name: str = NAME,
    eval_config: tfma.EvalConfig | None = None,
    model_name: str = "",
    output_name: str = "",
    sub_key: Any = None,
    example_weighted: bool = False,
) -> list[Any]:
    key = metric_types.MetricKey(
        name=name,
        model_name=model_name,
        output_name=output_name,
        sub_key=sub_key,
        example_weighted=example_weighted,
    )
    return [metric_types.MetricComputation(keys=[key], preprocessors=None, combiner=_Combiner(key, eval_config))]


class _Combiner(beam.CombineFn):
    """Counts labels per bucket of the score."""

    def __init__(self, key: Any, eval_config: tfma.EvalConfig | None) -> None:
        self._key = key
        self._eval_config = eval_config

    def create_accumulator(self) -> Counts:
        return {}

    def add_input(self, accumulator: Counts, element: Any) -> Counts:
        for label, score, weight in metric_util.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            example_weighted=self._key.example_weighted,
        ):
            count = accumulator.setdefault(bucket(float(score[0])), [0.0, 0.0])
            count[1 if label[0] > 0 else 0] += float(weight[0])
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Counts]) -> Counts:
        merged: Counts = {}
        for counts in accumulators:
            for key, (negative, positive) in counts.items():
                count = merged.setdefault(key, [0.0, 0.0])
                count[0] += negative
                count[1] += positive
        return merged

    def extract_output(self, accumulator: Counts) -> dict[Any, float]:
        return {self._key: area(accumulator)}
