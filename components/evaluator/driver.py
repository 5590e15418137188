"""Resolves the blessed model to compare with before the cache is asked: a new baseline means a new evaluation."""

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components.evaluator.baseline_days import evaluation_days
from components.registry.blessed import baseline_for, folder, read_all


class Driver(base_driver.BaseDriver, ir_base_driver.BaseDriver):
    """Adds `baseline_uri` to the exec properties; empty without a blessed model."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        """Keeps the connection for both of TFX's kinds of drivers; BaseComponent asks for the older one."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Reads the registry."""
        properties = execution_info.exec_properties
        models = read_all(folder(properties["pipeline_root"], properties["name"]))
        inputs = execution_info.input_dict
        baseline = baseline_for(inputs["model"][0].uri, models, evaluation_days(inputs["examples"][0]))
        result = driver_output_pb2.DriverOutput()
        for key, value in (properties | {"baseline_uri": baseline or ""}).items():
            if value is not None:
                data_types_utils.set_metadata_value(result.exec_properties[key], value)
        return result
