"""Resolves the date, the base and the files before TFX's cache lookup: they become part of the cache key."""

from tfx.orchestration.portable import data_types

from sangam.components.caching.driver import AddingDriver
from sangam.components.logs.files.arrival import show, wait_for_logs
from sangam.components.logs.files.digests import digests_of
from sangam.components.logs.files.listing import OneListing
from sangam.components.logs.files.resolve import fingerprint, resolve
from sangam.components.logs.files.storage import TfxStorage, open_file
from sangam.components.logs.request import DATE, FINGERPRINT, GENERATION, LOGS, START, parse, today_utc
from sangam.components.logs.tables.parts import with_parts, with_version
from sangam.components.steps.example_gen.start import starting_point
from sangam.components.steps.example_gen.store import DayStore


class Driver(AddingDriver):
    """Adds the date, the base, and a fingerprint of the files, so that changed data is read again."""

    def added(self, execution_info: data_types.ExecutionInfo) -> dict[str, str]:
        """Returns date, start, fingerprint and the generation of the store of examples.

        Raises:
            UserError: for logs that do not arrive, and for days or splits without files.
        """
        properties = execution_info.exec_properties
        today = today_utc()
        request = parse(properties, today)
        # Before listing: a fingerprint of an incomplete day is useless.
        wait_for_logs(request, TfxStorage(), today)
        storage = OneListing(TfxStorage())
        try:
            show("resolving the days: the base, and the files of each day")
            request = with_version(request)
            declared = {LOGS: request.table.model_dump_json()} if request.table else {}
            request = with_parts(request, TfxStorage())
            start = starting_point(request, storage)
            files = resolve(
                request.logs, request.date, request.data_root, storage, after=start.after, inputs=request.inputs
            )
            show("checking files for changes: reading new ones")
            digests = digests_of(files.all_files, request.pipeline_root, open_file)
        finally:
            show("")
        files_fingerprint = fingerprint(files, request.data_root, digests)
        return {
            # The executor reads the same version, whatever is written meanwhile.
            **declared,
            DATE: request.date,
            START: start.model_dump_json(),
            FINGERPRINT: files_fingerprint,
            GENERATION: DayStore(request).generation(),
        }
