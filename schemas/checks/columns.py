"""Mistakes in the use of columns: one column with two types, features known only after the event."""

from collections.abc import Iterator

from sangam.schemas.derived.columns import feature_columns, readings, serving_columns
from sangam.schemas.derived.rank_inputs import clashes
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import Loc, Problem, dotted
from sangam.schemas.spec import Spec

_KINDS = {"features": "feature", "tasks": "task", "keys": "key"}


def column_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in the use of columns."""
    for check in (_after_the_event, _types, _rank_inputs):
        yield from check(spec)


def _after_the_event(spec: Spec) -> Iterator[Problem]:
    after: dict[str, str] = {}
    for name, task in spec.tasks.items():
        for read, what in (
            (spec.label_of(name), "the label"),
            (task.only_where, "only_where"),
            (task.example_weight, "the example weights"),
        ):
            if read:
                after.setdefault(read, f"{what} of task '{name}'")
    for name, feature in spec.features.items():
        for column in feature_columns(spec, name):
            if column.name in after:
                yield Problem(
                    ("features", name, "column") if getattr(feature, "column", None) else ("features", name),
                    f"reads {after[column.name]} (got '{column.name}')",
                    "a feature must be known before the event",
                )
                break
    if spec.event_time in after:
        yield Problem(
            ("event_time",), f"is {after[str(spec.event_time)]} (got '{spec.event_time}')", "name a column of its own"
        )


def _types(spec: Spec) -> Iterator[Problem]:
    """Yields the second reader of a column that is read as two types."""
    readers: dict[str, tuple[Loc, Column]] = {}
    reported: set[Loc] = set()
    for where, column in readings(spec):
        first, known = readers.setdefault(column.name, (where, column))
        if _shape(known) == _shape(column) or where in reported or column.is_after_event != known.is_after_event:
            continue
        reported.add(where)
        yield Problem(
            where,
            f"reads column '{column.name}' as {_kind(column)}, {_named(first)} as {_kind(known)}",
            "a column has one type",
        )


def _shape(column: Column) -> tuple[object, ...]:
    return column.type, column.is_list, column.length


def _kind(column: Column) -> str:
    if not column.is_list:
        return column.type
    return f"list of {column.length} {column.type}s" if column.length else f"list of {column.type}"


def _named(where: Loc) -> str:
    return f"{_KINDS[str(where[0])]} '{where[1]}'" if where[0] in _KINDS else dotted(where)


def _rank_inputs(spec: Spec) -> Iterator[Problem]:
    for first, second, name in clashes(serving_columns(spec)):
        yield Problem(
            ("features",),
            f"columns '{first}' and '{second}' would both be input '{name}' of the served model (got both)",
            "rename one of them in the logs",
        )
