"""Lets a refusal be tried again: the cache must not repeat what a busy machine may have caused."""

from typing import Any

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2
from tfx.types import standard_artifacts

MODEL = "model_uri"
"""Custom property of the blessing."""


class Driver(base_driver.BaseDriver, ir_base_driver.BaseDriver):
    """Adds to the exec properties how often this very model was refused."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        """Keeps the connection for both of TFX's kinds of drivers; BaseComponent asks for the older one."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Asks ML Metadata."""
        uri = execution_info.input_dict["model"][0].uri
        # Any: TFX declares the older driver's handle, which this one is not.
        metadata_handle: Any = self._metadata_handle
        with metadata_handle as handle:
            known = handle.store.get_artifacts_by_type(standard_artifacts.InfraBlessing.TYPE_NAME)
        refusals = sum(_is_refusal(artifact, uri) for artifact in known)
        result = driver_output_pb2.DriverOutput()
        for key, value in (execution_info.exec_properties | {"refusals": refusals}).items():
            if value is not None:
                data_types_utils.set_metadata_value(result.exec_properties[key], value)
        return result


def _is_refusal(artifact: Any, model_uri: str) -> bool:
    noted = artifact.custom_properties
    return bool(noted[MODEL].string_value == model_uri and noted["blessed"].int_value == 0)
