"""All metrics of a binary or regression task as a single TFMA metric; `measured` reads the results.

TFMA's own classes look up and check the label, score and weight of every example again for every metric, slice and
model, and its bootstrap repeats that for each replicate.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_types, metric_util
from tensorflow_model_analysis.proto import metrics_for_slice_pb2

from components.steps.evaluator.metrics.block import BLOCK, Target
from components.steps.evaluator.metrics.bootstrap import interval
from components.steps.evaluator.metrics.group_metrics import MeanSums
from components.steps.evaluator.metrics.group_sums import GROUP_SUMS
from components.steps.evaluator.metrics.measured import CALIBRATION_BUCKETS, REPLICATE_TYPE, REPLICATES
from components.steps.evaluator.metrics.settings import Settings
from components.steps.evaluator.metrics.tally import Tally, Totals
from components.steps.evaluator.metrics.totals import Part
from components.steps.evaluator.metrics.totals_binary import BinaryTotals
from components.steps.evaluator.metrics.totals_histogram import Floats
from components.steps.evaluator.metrics.totals_regression import RegressionTotals
from components.steps.evaluator.metrics.totals_weighted import WeightedTotals

_NewTotals = Callable[[int, int], Totals]


class BinaryMetrics(metric_types.Metric):
    """Metrics of a probability; schemas.spec.metrics lists them."""

    def __init__(self, settings: dict[str, Any], name: str = "binary_metrics") -> None:
        """Names the metric; `settings` are a Settings' JSON."""
        super().__init__(metric_util.merge_per_key_computations(_binary), name=name, settings=settings)


class RegressionMetrics(metric_types.Metric):
    """Metrics of a real number; schemas.spec.metrics lists them."""

    def __init__(self, settings: dict[str, Any], name: str = "regression_metrics") -> None:
        """Names the metric; `settings` are a Settings' JSON."""
        super().__init__(metric_util.merge_per_key_computations(_regression), name=name, settings=settings)


metric_types.register_metric(BinaryMetrics)
metric_types.register_metric(RegressionMetrics)


def settings_in(config: tfma.EvalConfig) -> Settings:
    """Returns the settings in a configuration; all its metrics have the same."""
    return Settings.model_validate_json(json.dumps(json.loads(config.metrics_specs[0].metrics[0].config)["settings"]))


def binary_tasks(config: tfma.EvalConfig) -> frozenset[str]:
    """Returns the tasks that a configuration measures as binary."""
    return frozenset(
        task
        for spec in config.metrics_specs
        for metric in spec.metrics
        if metric.class_name == BinaryMetrics.__name__
        for task in spec.output_names
    )


def _binary(name: str, settings: dict[str, Any], model_name: str = "", output_name: str = "") -> list[Any]:
    return _computations(BinaryTotals, name, settings, (model_name, output_name))


def _regression(name: str, settings: dict[str, Any], model_name: str = "", output_name: str = "") -> list[Any]:
    return _computations(RegressionTotals, name, settings, (model_name, output_name))


def _computations(totals: _NewTotals, name: str, settings: dict[str, Any], target: Target) -> list[Any]:
    parsed = Settings.model_validate_json(json.dumps(settings))
    if target[1] in parsed.weights:
        totals = functools.partial(WeightedTotals, totals)
    return [
        metric_types.MetricComputation(
            # This key identifies the computation; the combiner's output has the metrics' keys.
            keys=[metric_types.MetricKey(name=name, model_name=target[0], output_name=target[1])],
            preprocessors=[_PartOf(target)],
            combiner=_Combiner(totals, parsed, target),
        )
    ]


class _PartOf(metric_types.Preprocessor):
    """Selects one task of one model from a block or from the sums over groups."""

    def __init__(self, target: Target) -> None:
        super().__init__(name=f"part of {target}")
        self._target = target

    def process(self, extracts: dict[str, Any]) -> Iterator[Part | dict[str, MeanSums]]:
        if BLOCK in extracts:
            yield extracts[BLOCK].part(self._target)
        elif self._target in extracts[GROUP_SUMS]:
            yield extracts[GROUP_SUMS][self._target]


class _Combiner(beam.CombineFn):
    """Tallies parts of a slice."""

    def __init__(self, totals: _NewTotals, settings: Settings, target: Target) -> None:
        self._totals = totals
        self._settings = settings
        self._target = target

    def create_accumulator(self) -> Tally:
        confidence = self._settings.confidence
        return Tally(self._totals, confidence.replicates, confidence.seed)

    def add_input(self, accumulator: Tally, element: Part | dict[str, MeanSums]) -> Tally:
        accumulator.add(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Tally]) -> Tally:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def compact(self, accumulator: Tally) -> Tally:
        accumulator.compact()
        return accumulator

    def extract_output(self, accumulator: Tally) -> dict[Any, Any]:
        result = accumulator.result(self._settings.least_examples)
        output: dict[Any, Any] = {self._key(name): value for name, value in result.report.items()}
        for name, values in result.metrics.items():
            output |= self._encoded(name, values)
        if result.buckets:
            output[self._key(CALIBRATION_BUCKETS)] = json.dumps(result.buckets).encode()
        return output

    def _key(self, name: str) -> Any:
        return metric_types.MetricKey(name=name, model_name=self._target[0], output_name=self._target[1])

    def _encoded(self, name: str, values: Floats) -> dict[Any, Any]:
        value, replicates = float(values[0]), values[1:]
        ends = interval(replicates.tolist(), self._settings.confidence.level)
        if not np.isfinite(value) or ends is None:
            return {self._key(name): value}
        bounded = metrics_for_slice_pb2.BoundedValue()
        bounded.value.value, (bounded.lower_bound.value, bounded.upper_bound.value) = value, ends
        return {
            self._key(name): bounded,
            self._key(name + REPLICATES): replicates.astype(REPLICATE_TYPE).tobytes(),
        }
