"""Recomputes the features of served candidates from tables, as of the time of their requests.

They are joined by the functions that join training's examples.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from sangam.components.logs.files.light_storage import LightStorage
from sangam.components.logs.files.source_files import source_files
from sangam.components.logs.joining.bucket import join_bucket
from sangam.components.logs.joining.matching import rows_of_source
from sangam.components.logs.joining.sides import ROW, VALUE, numbers_of, sides
from sangam.components.logs.joining.splitting import row_schema
from sangam.components.logs.joining.versions_around import versions_around
from sangam.components.skew.comparing import Offline
from sangam.components.skew.versions import Versions
from sangam.schemas.contracts.request_log import AT
from sangam.schemas.derived.days import Day
from sangam.schemas.derived.sources import keys_of_log, tables_of
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.sources import StateTable

_EARLIER = 3
"""Versions before the one as of a request that may explain a difference."""


def recompute(
    served: pa.Table, logs: DayLogs, columns: Sequence[Column], data_root: str, day: Day, keys: Sequence[str]
) -> Offline:
    """Returns the columns of the tables of logs, for each served candidate.

    Args:
        served: candidates of one day with their keys and time, as `sampled` returns them.
        logs: logs with sources; those that are no tables are left out.
        columns: columns of the inputs.
        data_root: folder that the patterns are relative to.
        day: day of the requests.
        keys: columns that name a candidate.

    Raises:
        UserError: a table has no files, or one that cannot be read.
    """
    tables = tables_of(logs)
    logs = logs.model_copy(update={"sources": tables})
    files = source_files(logs, [day], data_root, LightStorage())
    found = {key: served[key].combine_chunks() for key in keys}
    versions: dict[str, Versions] = {}
    for name, source in sorted(tables.items()):
        of_source = [(each.path, of) for source_name, of, each in files if source_name == name]
        rows = _main(served, source, day)
        others = rows_of_source(rows, name, logs, columns, of_source, AT)
        joined = join_bucket(source, rows, others, [day.toordinal()], []).batch
        if joined is not None:
            order = pa.array(np.argsort(numbers_of(joined, ROW)))
            for column in source.columns:
                found[column] = joined.column(joined.schema.get_field_index(VALUE + column)).take(order)
        versions |= _versions(source, rows, others)
    return Offline(pa.table(found), versions)


def _main(served: pa.Table, source: StateTable, day: Day) -> pa.RecordBatch:
    """Returns served candidates as rows of the main log."""
    size = served.num_rows
    keys = [served[column.name].combine_chunks() for column in keys_of_log(source)]
    numbers = (np.full(size, day.toordinal(), np.int32), np.zeros(size, np.int32), np.arange(size))
    arrays = [*(pa.array(each) for each in numbers), served[AT].combine_chunks(), *keys]
    return pa.RecordBatch.from_arrays(arrays, row_schema(source).names)


def _versions(source: StateTable, rows: pa.RecordBatch, others: pa.RecordBatch) -> Mapping[str, Versions]:
    main, other = sides(rows, others)
    steps = range(-_EARLIER, 2)
    around = versions_around((main.keys, main.times), (other.keys, other.times), steps)
    times = np.append(other.times, 0)[around[0]].astype(np.float64)
    since_s = np.where(around[0] >= 0, times, np.nan)
    at_s = main.times.astype(np.float64)
    found = {}
    for name, column in source.columns.items():
        values = other.column(VALUE + (column.column or name))
        by_step = {step: values.take(pa.array(at, mask=at < 0)) for step, at in around.items()}
        earlier = [by_step[-number] for number in range(1, _EARLIER + 1)]
        found[name] = Versions(earlier, by_step[1], since_s, at_s)
    return found
