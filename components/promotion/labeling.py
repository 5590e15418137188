"""Joins what followed to the candidates, by the functions that join training's examples."""

import datetime
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.files.day_files import listed_days, require_regular
from sangam.components.logs.files.light_storage import LightStorage
from sangam.components.logs.files.source_files import logs_of
from sangam.components.logs.joining.bucket import join_bucket, reaches
from sangam.components.logs.joining.matching import rows_of_source
from sangam.components.logs.joining.sides import ROW, VALUE, numbers_of
from sangam.components.logs.joining.splitting import row_schema
from sangam.components.promotion.reading import DAY
from sangam.schemas.derived.days import Day
from sangam.schemas.derived.sources import days_read, keys_of_log
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.sources import Actions


class Labeled(NamedTuple):
    """Candidates with what followed.

    Attributes:
        rows: the candidates with the columns of the sources.
        is_open: whether the window of a candidate is not over, or its actions may still arrive.
        lacks: whether the window of a candidate has a day without files of actions.
    """

    rows: pa.Table
    is_open: NDArray[np.bool_]
    lacks: NDArray[np.bool_]


def labeled(
    rows: pa.Table,
    logs: DayLogs,
    columns: Sequence[Column],
    data_root: str,
    event_time: str,
    ended_by: datetime.datetime,
) -> Labeled:
    """Joins the actions to candidates.

    Args:
        rows: candidates with their keys, the time of the event, and `DAY`.
        logs: logs with sources of actions.
        columns: columns of the inputs.
        data_root: folder that the patterns are relative to.
        event_time: column with the time of the event.
        ended_by: time by which a window must have ended, for its actions to be there.

    Raises:
        UserError: a file cannot be read.
    """
    days = [datetime.date.fromordinal(number) for number in sorted(set(rows[DAY].to_pylist()))]
    times = np.asarray(rows[event_time].combine_chunks().fill_null(0))
    is_open = lacks = np.zeros(rows.num_rows, bool)
    joined = rows
    for name, source in sorted(logs.sources.items()):
        assert isinstance(source, Actions)  # Data of kind served has no tables.
        files, absent = _files(logs, source, days, data_root)
        is_open = is_open | (times + source.window_s > ended_by.timestamp())
        lacks = lacks | reaches(times, source.window_s, absent)
        main = _main(rows, source, event_time)
        others = rows_of_source(main, name, logs, columns, files, event_time)
        found = join_bucket(source, main, others, [day.toordinal() for day in days], []).batch
        for column in source.columns:
            joined = joined.append_column(column, pa.nulls(0) if found is None else _in_order(found, column))
    return Labeled(joined, is_open, lacks)


def _in_order(found: pa.RecordBatch, column: str) -> pa.Array:
    """Returns a joined column in the order of the candidates."""
    order = pa.array(np.argsort(numbers_of(found, ROW)))
    return found.column(found.schema.get_field_index(VALUE + column)).take(order)


def _files(
    logs: DayLogs, source: Actions, days: Sequence[Day], data_root: str
) -> tuple[list[tuple[str, Day]], list[int]]:
    """Returns the files of a source with their days, and the days that have none yet."""
    read = sorted({each for day in days for each in days_read(source, day)})
    listed = listed_days(logs_of(logs, source), read, data_root, LightStorage())
    require_regular(each for of_day in listed for each in of_day)
    files = [(each.path, day) for day, of_day in zip(read, listed, strict=True) for each in of_day]
    return files, [day.toordinal() for day, of_day in zip(read, listed, strict=True) if not of_day]


def _main(rows: pa.Table, source: Actions, event_time: str) -> pa.RecordBatch:
    """Returns candidates as rows of the main log."""
    size = rows.num_rows
    keys = [rows[column.name].combine_chunks() for column in keys_of_log(source)]
    arrays = [
        rows[DAY].combine_chunks(),
        pa.array(np.zeros(size, np.int32)),
        pa.array(np.arange(size)),
        rows[event_time].combine_chunks(),
        *keys,
    ]
    return pa.RecordBatch.from_arrays(arrays, row_schema(source).names)
