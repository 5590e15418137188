"""What runs before TFX looks into its cache: days, files and the base become part of the cache key."""

from tfx.dsl.components.base import base_driver
from tfx.orchestration import metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components.example_gen.arrival import show, wait_for_logs
from components.example_gen.digests import digests_of
from components.example_gen.files import fingerprint, resolve
from components.example_gen.listing import OneListing
from components.example_gen.request import DATE, FINGERPRINT, START, parse, today_utc
from components.example_gen.start import starting_point
from components.example_gen.storage import TfxStorage, open_file


class Driver(base_driver.BaseDriver, ir_base_driver.BaseDriver):
    """Resolves an empty date and the base, and adds the files' fingerprint, so that changed data is read again."""

    def __init__(self, metadata_handle: metadata.Metadata) -> None:
        """Keeps the connection for both of TFX's kinds of drivers; BaseComponent asks for the older one."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Returns the exec properties with date, start and fingerprint filled in.

        Raises:
            UserError: for a date whose logs do not arrive, and days or splits without files.
        """
        properties = execution_info.exec_properties
        today = today_utc()
        request = parse(properties, today)
        # Before anything is listed: a fingerprint of half a day would be worth nothing.
        wait_for_logs(request, TfxStorage(), today)
        storage = OneListing(TfxStorage())
        try:
            show("resolving the days: the base, and the files of each day")
            start = starting_point(request, storage)
            files = resolve(request.logs, request.date, request.data_root, storage, after=start.after)
            show("looking for files that have changed: reading those that are new")
            digests = digests_of(files.files, request.pipeline_root, open_file)
        finally:
            show("")
        output = driver_output_pb2.DriverOutput()
        known = fingerprint(files, request.data_root, digests)
        found = {DATE: request.date, START: start.model_dump_json(), FINGERPRINT: known}
        for name, value in {**properties, **found}.items():
            if value is not None:
                output.exec_properties[name].string_value = str(value)
        return output
