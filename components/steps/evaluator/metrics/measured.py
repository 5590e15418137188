"""The file of an evaluation's results: metrics of the models by slice and task, with intervals and replicates.

`metrics.parquet` has a row for each slice, model, task and metric. `slice` is a JSON list of features and values.
`replicates` are the metric in every replicate of the bootstrap, in which an example has one count for both models.
`calibration_buckets` is JSON, in the row of `calibration` of a binary task: ten lists of equally many examples by
rising prediction, each `{"mean_prediction": …, "mean_label": …, "num_examples": …}`; examples of equal prediction stay
together. `curve` is JSON, in the row of `auc` of a binary task over all examples: `reports.curves.Curve`.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sangam.components.arrow_files import read_parquet
from sangam.components.reports.curves import CURVE_COLUMN, METRICS_FILE
from sangam.components.steps.evaluator.metrics.block import Target
from sangam.components.steps.evaluator.metrics.bootstrap import interval
from sangam.components.steps.evaluator.metrics.tally import Result
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.metrics import UNCALIBRATED_METRIC, slice_name, without_weights
from sangam.schemas.spec.release import Evaluation

CANDIDATE, BASELINE, UNCALIBRATED = "candidate", "baseline", "uncalibrated"
"""Names of the models. The last is the candidate without its calibrations, for the tasks that have one."""
_BEFORE = ("calibration", "calibration_error", "log_loss")
"""Metrics of the uncalibrated candidate that a verdict shows beside its own."""
_SCHEMA = pa.schema(
    [
        ("slice", pa.string()),
        ("model", pa.string()),
        ("task", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("replicates", pa.list_(pa.float64())),
        ("calibration_buckets", pa.string()),
        (CURVE_COLUMN, pa.string()),
    ]
)
"""`value`, `lower` and `upper` are null where undefined; `replicates` where there is no interval."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """One metric of one task of one model on one slice.

    Attributes:
        value: value of the metric; None where it is undefined.
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
        candidate: values of the candidate.
        baseline: values of the baseline, for the tasks that it scores.
        calibration_buckets: buckets of the candidate, for binary tasks.
        features: features that define the slice; empty for all examples and for new ids.
    """

    candidate: dict[str, Metrics] = field(default_factory=dict)
    baseline: dict[str, Metrics] = field(default_factory=dict)
    calibration_buckets: dict[str, list[Bucket]] = field(default_factory=dict)
    features: frozenset[str] = frozenset()


def encoded(slice_key: str, results: Mapping[Target, Result], level: float) -> list[Row]:
    """Returns the rows of a slice, with intervals of the level."""
    return [
        _row(slice_key, target, name, values, level, result)
        for target, result in results.items()
        for name, values in ({name: [value] for name, value in result.report.items()} | result.metrics).items()
    ]


def is_all(slice_key: str) -> bool:
    """Says whether a slice is that of all examples."""
    return not json.loads(slice_key)


def _row(slice_key: str, target: Target, name: str, values: Any, level: float, result: Result) -> Row:
    value, replicates = float(values[0]), list(map(float, values[1:]))
    ends = interval(replicates, level) if math.isfinite(value) else None
    lower, upper = ends or (None, None)
    return {
        "slice": slice_key,
        "model": target[0],
        "task": target[1],
        "metric": name,
        "value": value if math.isfinite(value) else None,
        "lower": lower,
        "upper": upper,
        "replicates": replicates if ends else None,
        "calibration_buckets": json.dumps(result.buckets) if name == "calibration" and result.buckets else None,
        CURVE_COLUMN: result.curve.model_dump_json() if name == "auc" and result.curve else None,
    }


def write_measured(slices: Iterable[Sequence[Row]], folder: str) -> None:
    """Writes the rows of all slices."""
    from tfx.dsl.io import fileio  # Imports TensorFlow, which judging needs not.

    rows = sorted((row for rows in slices for row in rows), key=lambda row: (row["slice"], row["model"] != CANDIDATE))
    fileio.makedirs(folder)
    content = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), content)
    with fileio.open(os.path.join(folder, METRICS_FILE), "wb") as file:
        file.write(content.getvalue().to_pybytes())


def read_measured(folder: str, inputs: Inputs, evaluation: Evaluation) -> dict[str, SliceResult]:
    """Returns the results by slice: "" for all examples, `tab=home`, `language=hi,tab=home`, `new user`.

    Args:
        folder: folder of `write_measured`; without the file there was no example.
        inputs: the tasks; every slice has a dict of metrics for each, which may be empty.
        evaluation: the slices; names have their features in this order.
    """
    from tfx.dsl.io import fileio

    path = os.path.join(folder, METRICS_FILE)
    if not fileio.exists(path):
        return {}
    with fileio.open(path, "rb") as file:
        rows = read_parquet(file.read(), path).to_pylist()
    results: dict[str, SliceResult] = {}
    for row in rows:
        name, features = _named(dict(json.loads(row["slice"])), inputs, evaluation)
        result = results.setdefault(name, SliceResult(candidate={task: {} for task in inputs.tasks}, features=features))
        side, metric = (result.baseline if row["model"] == BASELINE else result.candidate), row["metric"]
        if row["model"] == UNCALIBRATED:
            if without_weights(metric) not in _BEFORE:
                continue
            metric = UNCALIBRATED_METRIC + metric
        side.setdefault(row["task"], {})[metric] = _measured(row)
        if row["model"] == CANDIDATE and row["calibration_buckets"] is not None:
            result.calibration_buckets[row["task"]] = json.loads(row["calibration_buckets"])
    return results


def _named(values: dict[str, str | int], inputs: Inputs, evaluation: Evaluation) -> tuple[str, frozenset[str]]:
    # A slice of new ids has a single feature, such as `new user`, whose only value is true.
    first = next(iter(values), None)
    if first is not None and first not in {*inputs.features, *inputs.keys, *evaluation.sliced_by}:
        return first, frozenset()
    return name_of(evaluation, values), frozenset(values)


def _measured(row: Row) -> Measured:
    if row["value"] is None:
        return UNDEFINED
    return Measured(row["value"], row["lower"], row["upper"], tuple(row["replicates"] or ()))


def name_of(evaluation: Evaluation, values: Mapping[str, str | int]) -> str:
    """Returns the name of a slice, independent of the order in which a gate lists its features."""
    names = next(
        (features for features in evaluation.slice_names if set(features) == set(values)), tuple(sorted(values))
    )
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
