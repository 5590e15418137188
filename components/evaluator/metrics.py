"""All metrics of a task as one TFMA metric each for binary and for regression tasks.

TFMA's own classes look up and check label, score and weight of every example anew for every metric, slice and model:
with them an evaluation of three tasks takes three times as long.
"""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
from tensorflow_model_analysis.metrics import metric_types, metric_util

from components.evaluator.totals import BinaryTotals, RegressionTotals

Totals = BinaryTotals | RegressionTotals


class BinaryMetrics(metric_types.Metric):
    """AUC, log loss, calibration, mean label and number of examples. Thresholds bind the AUC, whose name it bears."""

    def __init__(self, name: str = "auc") -> None:
        """Names the metric."""
        super().__init__(metric_util.merge_per_key_computations(_binary), name=name)


class RegressionMetrics(metric_types.Metric):
    """RMSE, calibration, mean label and number of examples. Thresholds bind the RMSE, whose name it bears."""

    def __init__(self, name: str = "rmse") -> None:
        """Names the metric."""
        super().__init__(metric_util.merge_per_key_computations(_regression), name=name)


metric_types.register_metric(BinaryMetrics)
metric_types.register_metric(RegressionMetrics)


def _binary(name: str, model_name: str = "", output_name: str = "") -> list[Any]:
    del name
    return _computations(BinaryTotals, model_name, output_name)


def _regression(name: str, model_name: str = "", output_name: str = "") -> list[Any]:
    del name
    return _computations(RegressionTotals, model_name, output_name)


def _computations(totals: Callable[[], Totals], model_name: str, output_name: str) -> list[Any]:
    keys = {
        name: metric_types.MetricKey(name=name, model_name=model_name, output_name=output_name)
        for name in totals().metrics()
    }
    combiner = _Combiner(totals, keys)
    return [metric_types.MetricComputation(keys=list(keys.values()), preprocessors=None, combiner=combiner)]


class _Combiner(beam.CombineFn):
    """Adds examples to totals."""

    def __init__(self, totals: Callable[[], Totals], keys: dict[str, Any]) -> None:
        self._totals = totals
        self._keys = keys
        first = next(iter(keys.values()))
        self._place = (first.model_name, first.output_name)

    def create_accumulator(self) -> Totals:
        return self._totals()

    def add_input(self, accumulator: Totals, element: Any) -> Totals:
        (label,), (score,) = element.get_labels(*self._place), element.get_predictions(*self._place)
        accumulator.add(float(label), float(score))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        # All accumulators of one combiner are of one class, which the union of the two cannot say.
        merged: Any = self._totals()
        for accumulator in accumulators:
            merged.merge(accumulator)
        result: Totals = merged
        return result

    def extract_output(self, accumulator: Totals) -> dict[Any, float]:
        return {self._keys[name]: value for name, value in accumulator.metrics().items()}
