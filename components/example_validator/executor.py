"""TFX's validation, with consequences."""

import json
import logging
import os
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import types
from tfx.components.example_validator import executor as tfx_executor
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.dsl.io import fileio
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact_utils

from components.example_validator.anomalies import DataAnomalies
from components.example_validator.anomalies import found as anomalies_found
from components.example_validator.drift import FILE_NAME, distances
from schemas.data import EVAL, TRAIN
from schemas.drift import Drift
from schemas.spec import Inputs

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
        if exec_properties["drift"]:
            drift = Drift.model_validate_json(exec_properties["drift"])
            artifact = artifact_utils.get_single_instance(output_dict["anomalies"])
            _judge_drift(Inputs.model_validate_json(exec_properties["inputs"]), drift, statistics, artifact)
        return output

    def _Validate(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> anomalies_pb2.Anomalies:
        # Called by TFX once for each split, in the order of the statistics' splits: no split is excluded.
        anomalies = super()._Validate(inputs, outputs)
        self._anomalies.append(anomalies)
        return anomalies


def _judge_drift(inputs: Inputs, drift: Drift, statistics: types.Artifact, anomalies: types.Artifact) -> None:
    train, evaluation = (stats_artifact_utils.load_statistics(statistics, split).proto() for split in (TRAIN, EVAL))
    found = distances(inputs, drift, train=train, evaluation=evaluation)
    with fileio.open(os.path.join(anomalies.uri, FILE_NAME), "w") as file:
        file.write(json.dumps([distance.model_dump() for distance in found], indent=2) + "\n")
    for distance in found:
        _LOG.info("drift reason=%r", distance.reason)
    too_far = [distance.reason for distance in found if not distance.is_within]
    if too_far and drift.action == "stop":
        advice = "look into the logs; or raise the bound, or declare drift.action: warn"
        raise DataAnomalies("\n".join(f"drift: {reason}; {advice}" for reason in too_far))
    not_compared = [distance.reason for distance in found if distance.value is None]
    if too_far or not_compared:
        anomalies.set_string_custom_property("note", "\n".join(f"drift: {reason}" for reason in too_far + not_compared))
