"""What runs before TFX looks into its cache: days and files become part of the cache key."""

from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components.example_gen.files import fingerprint, resolve
from components.example_gen.request import DATE, FINGERPRINT, parse, today_utc
from components.example_gen.storage import TfxStorage


class Driver(base_driver.BaseDriver, ir_base_driver.BaseDriver):
    """Resolves an empty date, and adds the fingerprint of the files, so that changed data is read again."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        """Keeps the connection for both of TFX's kinds of drivers; BaseComponent asks for the older one."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Returns the exec properties with date and fingerprint filled in.

        Raises:
            UserError: for days or splits without files.
        """
        properties = execution_info.exec_properties
        request = parse(properties, today_utc())
        files = resolve(request.logs, request.date, request.data_root, TfxStorage())
        output = driver_output_pb2.DriverOutput()
        resolved = {**properties, DATE: request.date, FINGERPRINT: fingerprint(files, request.data_root)}
        for name, value in resolved.items():
            if value is not None:
                output.exec_properties[name].string_value = str(value)
        return output
