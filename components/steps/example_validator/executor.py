"""Runs TFX's validation, fails on anomalies and drift, and reports tasks whose labels are all equal."""

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx import types
from tfx.components.example_validator import executor as tfx_executor
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.dsl.io import fileio
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact_utils

from sangam.components.reports.drift import FILE_NAME
from sangam.components.steps.example_validator.anomalies import DataAnomalies, anomaly_lines
from sangam.components.steps.example_validator.drift import distances
from sangam.schemas.derived.columns import label_column
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import EVAL, TRAIN
from sangam.schemas.spec.drift import Drift
from sangam.schemas.spec.tasks import BinaryTask

_LOG = logging.getLogger(__name__)


class Executor(tfx_executor.Executor):
    """TFX's executor, extended to raise anomalies, which TFX only writes."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Validates every split, then compares the evaluation split with the training split if the spec bounds drift.

        Raises:
            DataAnomalies: with all anomalies; or with the drift, if drift.action is stop.
        """
        self._anomalies: list[anomalies_pb2.Anomalies] = []
        output = super().Do(input_dict, output_dict, exec_properties)
        statistics = artifact_utils.get_single_instance(input_dict["statistics"])
        splits = artifact_utils.decode_split_names(statistics.split_names)
        lines = anomaly_lines(dict(zip(splits, self._anomalies, strict=True)))
        if lines:
            raise DataAnomalies("\n".join(lines))
        inputs = Inputs.model_validate_json(exec_properties["inputs"])
        protos = {split: stats_artifact_utils.load_statistics(statistics, split).proto() for split in splits}
        notes = [
            f"labels: {sentence}"
            for split, proto in protos.items()
            for sentence in _uniform_labels(inputs, split, proto)
        ]
        artifact = artifact_utils.get_single_instance(output_dict["anomalies"])
        if exec_properties["drift"]:
            drift = Drift.model_validate_json(exec_properties["drift"])
            notes += _judge_drift(inputs, drift, protos, artifact.uri)
        if notes:
            artifact.set_string_custom_property("note", "\n".join(notes))
        return output

    def _Validate(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> anomalies_pb2.Anomalies:
        # TFX calls this once for each split, in the order of the statistics' splits, as none is excluded.
        anomalies = super()._Validate(inputs, outputs)
        self._anomalies.append(anomalies)
        return anomalies


def _judge_drift(inputs: Inputs, drift: Drift, statistics: Mapping[str, Any], anomalies_uri: str) -> list[str]:
    """Writes all distances, and returns the notes."""
    results = distances(inputs, drift, train=statistics[TRAIN], evaluation=statistics[EVAL])
    with fileio.open(os.path.join(anomalies_uri, FILE_NAME), "w") as file:
        file.write(json.dumps([distance.model_dump() for distance in results], indent=2) + "\n")
    for distance in results:
        _LOG.info("drift reason=%r", distance.reason)
    too_far = [distance.reason for distance in results if not distance.is_within]
    if too_far and drift.action == "stop":
        advice = "inspect the logs, raise the bound, or set drift.action: warn"
        raise DataAnomalies("\n".join(f"drift: {reason}; {advice}" for reason in too_far))
    not_compared = [distance.reason for distance in results if distance.value is None]
    return [f"drift: {reason}" for reason in too_far + not_compared]


def _uniform_labels(inputs: Inputs, split: str, statistics: statistics_pb2.DatasetFeatureStatisticsList) -> list[str]:
    """Returns a sentence for each task whose labels in a split are all equal or all missing."""
    (dataset,) = statistics.datasets
    by_column = {feature.path.step[0]: feature for feature in dataset.features}
    sentences = []
    for name, task in inputs.tasks.items():
        column = by_column.get(label_column(inputs, name).name)
        numbers = column.num_stats if column is not None else statistics_pb2.NumericStatistics()
        count = numbers.common_stats.num_non_missing
        if count and numbers.min != numbers.max:
            continue
        what = f"all {count:,} labels are {numbers.min:g}" if count else "there is no label"
        sentences.append(f"{name}: {what} in the split '{split}': {_consequence(split, isinstance(task, BinaryTask))}")
    return sentences


def _consequence(split: str, is_binary: bool) -> str:
    if split == TRAIN:
        return "the task can learn nothing else"
    needs = (
        "labels of both classes, such as auc, are" if is_binary else "labels that differ, such as rank_correlation, are"
    )
    return f"metrics that need {needs} undefined, and a gate on one refuses the model"
