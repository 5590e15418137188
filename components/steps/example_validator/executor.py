"""TFX's validation, with consequences."""

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import types
from tfx.components.example_validator import executor as tfx_executor
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.dsl.io import fileio
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact_utils

from components.steps.example_validator.anomalies import DataAnomalies
from components.steps.example_validator.anomalies import found as anomalies_found
from components.steps.example_validator.drift import FILE_NAME, distances
from components.steps.example_validator.labels import alike
from schemas.spec import Inputs
from schemas.spec.data import EVAL, TRAIN
from schemas.spec.drift import Drift

_LOG = logging.getLogger(__name__)


class Executor(tfx_executor.Executor):
    """Validates as TFX does, and raises what was found: TFX's own executor only writes it down."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Validates every split, then compares the evaluation split with the training split where that is declared.

        Raises:
            DataAnomalies: if there are any, with all of them; or drift that is declared to stop the run.
        """
        self._anomalies: list[anomalies_pb2.Anomalies] = []
        output = super().Do(input_dict, output_dict, exec_properties)
        statistics = artifact_utils.get_single_instance(input_dict["statistics"])
        splits = artifact_utils.decode_split_names(statistics.split_names)
        lines = anomalies_found(dict(zip(splits, self._anomalies, strict=True)))
        if lines:
            raise DataAnomalies("\n".join(lines))
        inputs = Inputs.model_validate_json(exec_properties["inputs"])
        protos = {split: stats_artifact_utils.load_statistics(statistics, split).proto() for split in splits}
        notes = [f"labels: {sentence}" for split, proto in protos.items() for sentence in alike(inputs, split, proto)]
        artifact = artifact_utils.get_single_instance(output_dict["anomalies"])
        if exec_properties["drift"]:
            drift = Drift.model_validate_json(exec_properties["drift"])
            notes += _judge_drift(inputs, drift, protos, artifact.uri)
        if notes:
            artifact.set_string_custom_property("note", "\n".join(notes))
        return output

    def _Validate(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> anomalies_pb2.Anomalies:
        # Called by TFX once for each split, in the order of the statistics' splits: no split is excluded.
        anomalies = super()._Validate(inputs, outputs)
        self._anomalies.append(anomalies)
        return anomalies


def _judge_drift(inputs: Inputs, drift: Drift, statistics: Mapping[str, Any], anomalies_uri: str) -> list[str]:
    """Writes all distances; returns what is to be noted."""
    found = distances(inputs, drift, train=statistics[TRAIN], evaluation=statistics[EVAL])
    with fileio.open(os.path.join(anomalies_uri, FILE_NAME), "w") as file:
        file.write(json.dumps([distance.model_dump() for distance in found], indent=2) + "\n")
    for distance in found:
        _LOG.info("drift reason=%r", distance.reason)
    too_far = [distance.reason for distance in found if not distance.is_within]
    if too_far and drift.action == "stop":
        advice = "look into the logs; or raise the bound, or declare drift.action: warn"
        raise DataAnomalies("\n".join(f"drift: {reason}; {advice}" for reason in too_far))
    not_compared = [distance.reason for distance in found if distance.value is None]
    return [f"drift: {reason}" for reason in too_far + not_compared]
