"""What the drivers of our steps have in common: they add to the cache key what only the moment of a run can tell."""

from abc import abstractmethod
from collections.abc import Mapping

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2


class AddingDriver(base_driver.BaseDriver, ir_base_driver.BaseDriver):
    """Adds exec properties before TFX looks into its cache."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        """Keeps the connection for both of TFX's kinds of drivers; BaseComponent asks for the older one."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    @abstractmethod
    def added(self, execution_info: data_types.ExecutionInfo) -> Mapping[str, str | int]:
        """Returns the properties to add, or to put in the place of those given."""

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Returns all exec properties, as TFX wants them."""
        result = driver_output_pb2.DriverOutput()
        for name, value in {**execution_info.exec_properties, **self.added(execution_info)}.items():
            if value is not None:
                data_types_utils.set_metadata_value(result.exec_properties[name], value)
        return result
