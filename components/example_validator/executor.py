"""TFX's validation, with consequences."""

from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import types
from tfx.components.example_validator import executor as tfx_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact_utils

from components.example_validator.anomalies import DataAnomalies, found


class Executor(tfx_executor.Executor):
    """Validates as TFX does, and raises what was found: TFX's own executor only writes it down."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Validates every split.

        Raises:
            DataAnomalies: if there are any, with all of them.
        """
        self._anomalies: list[anomalies_pb2.Anomalies] = []
        output = super().Do(input_dict, output_dict, exec_properties)
        statistics = artifact_utils.get_single_instance(input_dict["statistics"])
        splits = artifact_utils.decode_split_names(statistics.split_names)
        lines = found(dict(zip(splits, self._anomalies, strict=True)))
        if lines:
            raise DataAnomalies("\n".join(lines))
        return output

    def _Validate(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> anomalies_pb2.Anomalies:
        # Called by TFX once for each split, in the order of the statistics' splits: no split is excluded.
        anomalies = super()._Validate(inputs, outputs)
        self._anomalies.append(anomalies)
        return anomalies
