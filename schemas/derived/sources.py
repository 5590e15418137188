"""The sources joined to the main log: the origin of each column, and the days that are read."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs, Logs
from sangam.schemas.spec.sources import Actions, Source, StateTable

_DAY_S = 86_400


def sources_of(logs: Logs) -> Mapping[str, Source]:
    """Returns the sources by name; logs without dates have none."""
    return logs.sources if isinstance(logs, DayLogs) else {}


def tables_of(logs: Logs) -> dict[str, StateTable]:
    """Returns the tables among the sources, by name."""
    return {name: source for name, source in sources_of(logs).items() if isinstance(source, StateTable)}


def origins(logs: Logs) -> dict[str, str]:
    """Returns the source of each joined column, by the column's name in the examples."""
    return {column: name for name, source in sources_of(logs).items() for column in source.columns}


def columns_of_log(logs: Logs, columns: Sequence[Column]) -> list[Column]:
    """Returns the columns that the main log itself must have."""
    others = {*origins(logs), *(logs.negatives.created if logs.negatives else ())}
    return [column for column in columns if column.name not in others]


def columns_read_of_log(logs: Logs, columns: Sequence[Column]) -> list[Column]:
    """Returns `columns_of_log` and the keys of the sources."""
    read = columns_of_log(logs, columns)
    keys = [key for source in sources_of(logs).values() for key in keys_of_log(source)]
    return list({column.name: column for column in (*keys, *read)}.values())


def keys_of_log(source: Source) -> list[Column]:
    """Returns the keys of a source as columns of the main log, in one order for both sides."""
    return [Column(name, key.type, is_required=False, is_id=True) for name, key in sorted(source.keys.items())]


def keys_of_source(source: Source) -> list[Column]:
    """Returns the keys as columns of the source, in the same order."""
    return [
        Column(key.column or name, key.type, is_required=False, is_id=True) for name, key in sorted(source.keys.items())
    ]


def time_of_source(source: Source) -> Column:
    """Returns the source's column of times. Actions happen near the days of the run, versions may be old."""
    kind = source.kind == "actions"
    return Column(source.time, "int", is_required=False, time="event" if kind else "other")


def values_of_source(source: Source, columns: Sequence[Column]) -> list[Column]:
    """Returns the columns of the source that examples are made of, with the types of their readers.

    Args:
        source: source to join.
        columns: columns of the inputs.
    """
    readers = {column.name: column for column in columns}
    found: dict[str, Column] = {}
    match source:
        case StateTable():
            for name, version in source.columns.items():
                own = version.column or name
                found[own] = replace(readers[name], name=own, is_required=False)
        case Actions():
            for name, action in source.columns.items():
                if action.take not in ("happened", "count"):
                    own = action.column or name
                    found[own] = Column(own, readers[name].type, is_required=False)
                for own, value in action.where.items():
                    found[own] = Column(own, "int" if isinstance(value, int) else "string", is_required=False)
    return [found[name] for name in sorted(found)]


def columns_of_source(source: Source, columns: Sequence[Column]) -> list[Column]:
    """Returns every column that is read of a source, once: keys, time and values."""
    read = [*keys_of_source(source), time_of_source(source), *values_of_source(source, columns)]
    return list({column.name: column for column in reversed(read)}.values())


def days_read(source: Source, day: datetime.date) -> list[datetime.date]:
    """Returns the days of a source whose files are joined to one day of the main log, oldest first."""
    match source:
        case Actions():
            first, last = 0, -(-source.window_s // _DAY_S)
        case StateTable():
            first, last = -source.max_age_days, 0
    return [day + datetime.timedelta(days=offset) for offset in range(first, last + 1)]
