"""Base of the steps' drivers: they add properties to the cache key when the step runs."""

from abc import abstractmethod
from collections.abc import Mapping

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2


class AddingDriver(base_driver.BaseDriver, ir_base_driver.BaseDriver):
    """Adds exec properties before TFX's cache lookup."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        """Initializes both of TFX's kinds of drivers; BaseComponent requires the older one."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    @abstractmethod
    def added(self, execution_info: data_types.ExecutionInfo) -> Mapping[str, str | int]:
        """Returns the properties to add or replace."""

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Returns all exec properties in TFX's form."""
        result = driver_output_pb2.DriverOutput()
        for name, value in {**execution_info.exec_properties, **self.added(execution_info)}.items():
            if value is not None:
                data_types_utils.set_metadata_value(result.exec_properties[name], value)
        return result
