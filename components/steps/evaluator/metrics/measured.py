"""Reads TFMA's results: metrics of both models by task and slice, with intervals and replicates.

TFMA's files contain, by task (`output_name`) and model (`model_name`),

- `auc`: a double (NaN where undefined), with TFMA's confidence interval if the bootstrap gives one;
- `auc/replicates`: bytes, the metric in every replicate of the bootstrap as little-endian float64. Replicate i gives
  each example the same weight for both models. Bytes, because TFMA would subtract the arrays of the two models;
- `calibration_buckets`: bytes, JSON, for binary tasks: ten lists of equally many examples by rising prediction, each
  `{"mean_prediction": …, "mean_label": …, "num_examples": …}`; examples of equal prediction stay together.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from components.steps.evaluator.metrics.bootstrap import interval
from schemas.spec import Inputs
from schemas.spec.metrics import slice_name
from schemas.spec.release import Evaluation

CANDIDATE, BASELINE = "candidate", "baseline"
"""TFMA's names of the two models: tfma.CANDIDATE_KEY and BASELINE_KEY."""
REPLICATES = "/replicates"
CALIBRATION_BUCKETS = "calibration_buckets"
REPLICATE_TYPE = np.dtype("<f8")


@dataclass(frozen=True)
class Measured:
    """One metric of one task of one model on one slice.

    Attributes:
        value: None where it is undefined.
        lower: end of the bootstrap's percentile interval; None without one.
        upper: the other end.
        replicates: the metric in each replicate, NaN where undefined; empty without a bootstrap.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    replicates: tuple[float, ...] = ()


UNDEFINED = Measured(value=None)
Metrics = dict[str, Measured]
Bucket = dict[str, float]


@dataclass(frozen=True)
class SliceResult:
    """The metrics of a slice by task.

    Attributes:
        candidate: of the candidate.
        baseline: of the baseline, for the tasks that it scores.
        calibration_buckets: the candidate's, for binary tasks.
        features: that define the slice; empty for all examples and for new ids.
    """

    candidate: dict[str, Metrics] = field(default_factory=dict)
    baseline: dict[str, Metrics] = field(default_factory=dict)
    calibration_buckets: dict[str, list[Bucket]] = field(default_factory=dict)
    features: frozenset[str] = frozenset()


def read_measured(messages: Iterable[Any], inputs: Inputs, evaluation: Evaluation) -> dict[str, SliceResult]:
    """Returns the results by slice: "" for all examples, `tab=home`, `language=hi,tab=home`, `new user`.

    Args:
        messages: MetricsForSlice, from `tfma.load_metrics`.
        inputs: the tasks; every slice has a dict of metrics for each, which may be empty.
        evaluation: the slices; names have their features in this order.
    """
    results = {}
    for message in messages:
        pairs = [(key.column, _slice_value(key)) for key in message.slice_key.single_slice_keys]
        # A slice of new ids has a single feature, such as `new user`, whose only value is true.
        is_of_new_ids = bool(pairs) and pairs[0][0] not in _names(inputs)
        name = pairs[0][0] if is_of_new_ids else name_of(evaluation, dict(pairs))
        features = frozenset() if is_of_new_ids else frozenset(dict(pairs))
        results[name] = _result(message, inputs, features)
    return results


def name_of(evaluation: Evaluation, values: Mapping[str, str | int]) -> str:
    """Returns the name of a slice, whatever the order in which a gate lists its features."""
    names = next((features for features in evaluation.slices if set(features) == set(values)), tuple(sorted(values)))
    return slice_name([(feature, values[feature]) for feature in names])


def paired_change(candidate: Measured, baseline: Measured, level: float) -> Measured:
    """Returns candidate minus baseline, with the interval of the replicates' differences."""
    if candidate.value is None or baseline.value is None:
        return UNDEFINED
    differences: tuple[float, ...] = ()
    if len(candidate.replicates) == len(baseline.replicates):
        pairs = zip(candidate.replicates, baseline.replicates, strict=True)
        differences = tuple(ours - theirs for ours, theirs in pairs)
    lower, upper = interval(differences, level) or (None, None)
    return Measured(candidate.value - baseline.value, lower, upper, differences)


def _names(inputs: Inputs) -> set[str]:
    return {*inputs.features, *inputs.keys}


def _slice_value(key: Any) -> str | int:
    value = getattr(key, key.WhichOneof("kind"))
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return int(value)


def _result(message: Any, inputs: Inputs, features: frozenset[str]) -> SliceResult:
    result = SliceResult(candidate={task: {} for task in inputs.tasks}, features=features)
    replicates = {
        (entry.key.model_name, entry.key.output_name, entry.key.name): entry.value.bytes_value
        for entry in message.metric_keys_and_values
        if entry.key.name.endswith(REPLICATES)
    }
    for entry in message.metric_keys_and_values:
        key = entry.key
        if key.is_diff or key.name.endswith(REPLICATES):
            continue
        is_baseline = key.model_name == BASELINE
        if key.name == CALIBRATION_BUCKETS:
            if not is_baseline:
                result.calibration_buckets[key.output_name] = json.loads(entry.value.bytes_value)
            continue
        side = result.baseline if is_baseline else result.candidate
        encoded = replicates.get((key.model_name, key.output_name, key.name + REPLICATES), b"")
        side.setdefault(key.output_name, {})[key.name] = _measured(entry, encoded)
    return result


def _measured(entry: Any, encoded: bytes) -> Measured:
    value = entry.value.double_value.value
    if not math.isfinite(value):
        return UNDEFINED
    lower = upper = None
    if entry.HasField("confidence_interval"):
        lower = entry.confidence_interval.lower_bound.double_value.value
        upper = entry.confidence_interval.upper_bound.double_value.value
    return Measured(value, lower, upper, tuple(np.frombuffer(encoded, REPLICATE_TYPE).tolist()))
