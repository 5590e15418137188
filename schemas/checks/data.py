"""Mistakes in the section `data`."""

from collections.abc import Iterator

from sangam.schemas.derived.columns import columns
from sangam.schemas.problems import Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs, ServedLogs, SplitLogs
from sangam.schemas.spec.features import IdsFeature, SequenceFeature


def data_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake in splits, times and sizes of the logs."""
    yield from _list_lengths(spec)
    yield from _without_effect(spec)
    logs = spec.data
    if isinstance(logs, SplitLogs) and logs.times.latest < logs.times.earliest:
        yield Problem(
            ("data", "times", "latest"),
            f"lies before earliest (got {logs.times.latest}, {logs.times.earliest})",
            "give the first day and the last",
        )
    if isinstance(logs, DayLogs | ServedLogs) and logs.validation_days >= logs.train_days:
        yield Problem(
            ("data", "validation_days"),
            f"leave no day to train on (got {logs.validation_days} of {logs.train_days} train_days)",
            "use fewer than train_days: they are the newest of them",
        )


def _without_effect(spec: Spec) -> Iterator[Problem]:
    read = columns(spec)
    for name, has_effect, what in (
        ("times", any(column.time for column in read), "no column holds times"),
        ("max_list_length", any(column.is_list and not column.length for column in read), "no column holds lists"),
        ("max_id_bytes", any(column.type == "string" for column in read), "no id is a string"),
    ):
        if name in spec.data.model_fields_set and not has_effect:
            yield Problem(("data", name), f"has no effect: {what} (got {getattr(spec.data, name)})", "remove it")


def _list_lengths(spec: Spec) -> Iterator[Problem]:
    """Yields features that read more values of a list than ingestion keeps; it keeps the first and the last ones."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for name, feature in spec.features.items():
        if isinstance(feature, SequenceFeature):
            ends = last if feature.keep == "last" else first
            length = feature.max_length
        elif isinstance(feature, IdsFeature):
            ends, length = first, feature.max_values
        else:
            continue
        lists = [column.name for column in feature.reads(name) if column.is_list]
        ends |= {column: max(ends.get(column, 0), length) for column in lists}
        read = {column: first.get(column, 0) + last.get(column, 0) for column in lists}
        # The first of aligned columns, which are as long.
        column = max(read, key=lambda column: read[column])
        if read[column] > spec.data.max_list_length:
            yield Problem(
                ("data", "max_list_length"),
                f"is less than the values that features read of column '{column}' (got {spec.data.max_list_length}, "
                f"they read {read[column]})",
                f"raise it, or read fewer values in feature '{name}'",
            )
