"""The files of a table, and the times of its rows."""

import datetime
import glob
import posixpath
from collections.abc import Callable, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.files.day_files import require_regular, visible
from sangam.components.logs.files.listing import Listed, Storage
from sangam.components.logs.files.resolve import DataFile
from sangam.components.logs.files.table_formats import refuse_tables
from sangam.components.logs.rows.times import TimeRange, check_times
from sangam.components.logs.tables.delta import delta_version
from sangam.components.logs.tables.splitting import days_of
from sangam.schemas.derived.days import Day, parse_day
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import TableLogs

OpenFile = Callable[[str], BinaryIO]
_TABLE, _FIRST_DAY = "table", datetime.date(1970, 1, 1)


def files_of(table: TableLogs, data_root: str, storage: Storage) -> list[DataFile]:
    """Returns the files of a table.

    Raises:
        UserError: there is none, or a path is not a regular file.
    """
    if table.format == "delta":
        listed: Sequence[Listed] = delta_version(posixpath.join(data_root, table.pattern), table.version).files
    else:
        [found] = storage.match([posixpath.join(glob.escape(data_root), table.pattern)])
        listed = visible(found, table.pattern)
    require_regular(listed)
    files = [DataFile(each.path, _TABLE, None, each.facts) for each in listed if each.facts]
    if not files:
        raise UserError(
            f"data.pattern: no file matches (got {posixpath.join(data_root, table.pattern)}); check the data folder "
            "and the pattern"
        )
    if table.format == "parquet":
        refuse_tables([files[0].path, files[-1].path], storage)
    return files


def times_in(table: TableLogs, files: Sequence[DataFile], open_file: OpenFile) -> NDArray[np.int64]:
    """Returns the times of all rows that have one within the table's bounds, reading no other column."""
    column = time_column(table)
    # Other formats than tf.Example need no TensorFlow.
    from sangam.components.logs.readers import formats

    parts = []
    for file in files:
        with open_file(file.path) as opened:
            for rows in formats.read(table, opened, file.path, [column]):
                checked = check_times(column_of(rows.batch, column.name), column, range_of(table))
                known = np.asarray(checked.values.is_valid()) & ~checked.is_outside
                parts.append(np.asarray(checked.values.fill_null(0))[known])
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def days_with_rows(table: TableLogs, files: Sequence[DataFile], open_file: OpenFile) -> list[Day]:
    """Returns the days of all rows with a time, oldest first."""
    days = np.unique(days_of(times_in(table, files, open_file), table.zone))
    return [_FIRST_DAY + datetime.timedelta(days=int(day)) for day in days]


def time_column(table: TableLogs) -> Column:
    """Returns the column of times."""
    assert table.time
    return Column(table.time, "int", is_required=False, time="event")


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column of a batch; integers of any width as int64."""
    array = batch.column(batch.schema.get_field_index(name))
    return array.cast(pa.int64()) if pa.types.is_integer(array.type) else array


def range_of(table: TableLogs) -> TimeRange:
    """Returns the range of the times of events."""
    first, last = parse_day(table.times.earliest), parse_day(table.times.latest)
    return TimeRange(first, last, usual=first)
