"""Reads the rows of a source that have the keys of some rows of the main log."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.arrow_files import open_stream
from sangam.components.logs.files.light_storage import open_light
from sangam.components.logs.joining.plan import JoinFile
from sangam.components.logs.joining.sides import KEY
from sangam.components.logs.joining.slices import single
from sangam.components.logs.joining.splitting import FileReport, Splitter, source_schema
from sangam.schemas.derived.days import Day
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs


def rows_of_source(
    rows: pa.RecordBatch,
    name: str,
    logs: DayLogs,
    columns: Sequence[Column],
    files: Sequence[tuple[str, Day]],
    event_time: str,
) -> pa.RecordBatch:
    """Returns the rows of a source for `join_bucket`.

    Args:
        rows: rows of the main log, in the columns of `row_schema`.
        name: name of the source.
        logs: logs with the source.
        columns: columns of the inputs.
        files: path and day of each file of the source.
        event_time: column with the time of the main log's rows.

    Raises:
        UserError: a file cannot be read.
    """
    schema = source_schema(logs.sources[name], columns)
    batches = list(_read(rows, name, logs, columns, files, event_time))
    return single(batches) if batches else pa.RecordBatch.from_pylist([], schema)


def _read(
    rows: pa.RecordBatch,
    name: str,
    logs: DayLogs,
    columns: Sequence[Column],
    files: Sequence[tuple[str, Day]],
    event_time: str,
) -> Iterator[pa.RecordBatch]:
    wanted = {key: rows.column(rows.schema.get_field_index(key)) for key in rows.schema.names if key.startswith(KEY)}
    splitter = Splitter(logs, columns, event_time, {name: 1})
    for number, (path, day) in enumerate(files):
        file = JoinFile(name, path, day.isoformat(), number)
        with open_light(path) as opened:
            for each in splitter.split(file, opened, FileReport(source=name, path=path)):
                if isinstance(each, FileReport):
                    continue
                for batch in open_stream(each[2]):
                    is_wanted = np.ones(batch.num_rows, bool)
                    for key, values in wanted.items():
                        found = pc.is_in(batch.column(batch.schema.get_field_index(key)), values)
                        is_wanted &= np.asarray(found, dtype=bool)
                    yield batch.filter(pa.array(is_wanted))
