"""Mistakes in `data.sources`: columns with two origins or none, keys that cannot be joined, leaks."""

from collections.abc import Iterator

from sangam.schemas.derived.columns import feature_columns, readings
from sangam.schemas.derived.sources import keys_of_source, origins, sources_of, time_of_source
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.sources import ActionColumn, Actions, Source

_PLACE = ("data", "sources")
_OF_A_VALUE = ("sum", "max", "last")


def source_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in the sources."""
    if not sources_of(spec.logs_with_tables):
        return
    if spec.event_time is None:
        yield Problem(
            _PLACE,
            "are joined by the time of the event (got no event_time)",
            "declare event_time, the column with the time",
        )
    yield from _origins(spec)
    yield from _leaks(spec)
    by_name = {column.name: column for _, column in readings(spec)}
    in_log = dict(by_name)
    for name, source in sources_of(spec.logs_with_tables).items():
        yield from _keys((*_PLACE, name), source, spec, in_log)
        yield from _columns((*_PLACE, name), source, by_name)
        yield from _marker((*_PLACE, name), source, spec)


def _origins(spec: Spec) -> Iterator[Problem]:
    """Yields columns of two sources, and joined columns that are the event's time."""
    first: dict[str, str] = {}
    for name, source in sources_of(spec.logs_with_tables).items():
        for column in source.columns:
            known = first.setdefault(column, name)
            where = (*_PLACE, name, "columns", column)
            if known != name:
                yield Problem(where, f"is a column of source '{known}' too (got '{column}')", "give it another name")
            if column == spec.event_time:
                yield Problem(
                    where,
                    f"is event_time (got '{column}')",
                    "name another column: rows are joined by event_time of the main log",
                )


def _leaks(spec: Spec) -> Iterator[Problem]:
    """Yields features that read an action, which is known only after the event."""
    of = origins(spec.logs_with_tables)
    for name in spec.features:
        for column in feature_columns(spec, name):
            source = of.get(column.name)
            if source and isinstance(sources_of(spec.logs_with_tables)[source], Actions):
                yield Problem(
                    ("features", name),
                    f"reads an action of source '{source}' (got '{column.name}')",
                    "a feature must be known before the event: only tasks may read actions",
                )
                break


def _keys(where: Loc, source: Source, spec: Spec, in_log: dict[str, Column]) -> Iterator[Problem]:
    of = origins(spec.logs_with_tables)
    for name, key in source.keys.items():
        place = (*where, "keys", name)
        if name in of:
            yield Problem(
                place, f"is a column of source '{of[name]}' (got '{name}')", "a key must be a column of the main log"
            )
        reader = in_log.setdefault(name, Column(name, key.type))
        if _shape(reader) != key.type:
            yield Problem(
                place, f"is read as {_shape(reader)} elsewhere (got type {key.type})", "a column has one type"
            )
    own = [column.name for column in keys_of_source(source)]
    if len(set(own)) < len(own):
        yield Problem((*where, "keys"), f"name a column twice (got {listed(own)})", "name each column once")
    if source.time in own:
        yield Problem((*where, "time"), f"is a key (got '{source.time}')", "name the column with the row's time")


def _columns(where: Loc, source: Source, by_name: dict[str, Column]) -> Iterator[Problem]:
    # Types of the source's columns that have been read so far.
    known = {column.name: _shape(column) for column in (*keys_of_source(source), time_of_source(source))}
    for name, column in source.columns.items():
        place = (*where, "columns", name)
        reader = by_name.get(name)
        if reader is None:
            yield Problem(place, f"has no effect: no feature, task or key reads it (got '{name}')", "remove it")
        elif isinstance(column, ActionColumn):
            yield from _action_column(place, name, column, reader, known)
        else:
            yield from _one_type(place, column.column or name, _shape(reader), known)


def _action_column(
    where: Loc, name: str, column: ActionColumn, reader: Column, known: dict[str, str]
) -> Iterator[Problem]:
    if reader.is_list or reader.type == "string":
        yield Problem(where, f"is read as {_shape(reader)} (got take: {column.take})", "an action gives a number")
    elif column.take in _OF_A_VALUE:
        yield from _one_type(where, column.column or name, reader.type, known)
    elif column.column is not None:
        yield Problem(
            (*where, "column"), f"has no effect with take: {column.take} (got '{column.column}')", "remove it"
        )
    for own, value in column.where.items():
        yield from _one_type((*where, "where", own), own, "int" if isinstance(value, int) else "string", known)


def _one_type(where: Loc, own: str, shape: str, known: dict[str, str]) -> Iterator[Problem]:
    """Yields a column of the source that is read as two types."""
    first = known.setdefault(own, shape)
    if first != shape:
        yield Problem(
            where, f"reads column '{own}' of the source as two types (got {first}, {shape})", "a column has one type"
        )


def _shape(column: Column) -> str:
    return f"list of {column.type}s" if column.is_list else column.type


def _marker(where: Loc, source: Source, spec: Spec) -> Iterator[Problem]:
    assert isinstance(spec.logs, DayLogs)
    if source.marker and not spec.logs.arrival:
        yield Problem(
            (*where, "marker"),
            f"has no effect without data.arrival, which sets the wait (got '{source.marker}')",
            "declare arrival, or remove it",
        )
