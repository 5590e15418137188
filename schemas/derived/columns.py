"""The columns of the logs that a spec reads: the contract between ingestion, validation, Transform and serving."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.features import (
    BiasFeature,
    HistoryFeature,
    IdFeature,
    ListFeature,
    MatchFeature,
    SequenceFeature,
)
from sangam.schemas.spec.tasks import BinaryTask, LogError, RegressionTask, WatchTimeTask

EVENT_TIME = "_event_time"
"""Name of the event's time among Transform's outputs; no feature can have this name."""

WEIGHTS, SERVING, EXAMPLE_WEIGHT = "/weights", "/serving", "/example_weight"
"""Suffixes of a feature's or a task's name among Transform's outputs."""
EVENTS, TIMES, AT = "/events/", "/times", "/at"
"""Behind a sequence's name among Transform's outputs."""
HISTORY = "/history"
"""Suffix of a feature's name among the columns of Transform's graph that the logs do not have."""


def weights_of(feature: str) -> str:
    """Returns the output with the weights of a feature's ids."""
    return feature + WEIGHTS


def event_of(feature: str, part: str) -> str:
    """Returns the output with further ids, or amounts, of a sequence's events."""
    return feature + EVENTS + part


def times_of(feature: str) -> str:
    """Returns the output with the times of a sequence's events."""
    return feature + TIMES


def at_of(feature: str) -> str:
    """Returns the output with the time of the row, to which the times of a sequence's events are relative."""
    return feature + AT


def serving_of(feature: str) -> str:
    """Returns the output that replaces a bias feature in predictions."""
    return feature + SERVING


def example_weight_of(task: str) -> str:
    """Returns the output with a task's example weights."""
    return task + EXAMPLE_WEIGHT


def history_of(feature: str) -> str:
    """Returns the column with the counts before the row's day, which Transform joins to the columns of the logs."""
    return feature + HISTORY


def feature_columns(inputs: Inputs, name: str) -> tuple[Column, ...]:
    """Returns every column that a feature reads."""
    return tuple(inputs.features[name].reads(name))


def graph_columns(inputs: Inputs, name: str) -> tuple[str, ...]:
    """Returns the columns that Transform's graph makes a feature of: columns of the logs, or the joined one."""
    if isinstance(inputs.features[name], HistoryFeature):
        return (history_of(name),)
    return tuple(column.name for column in feature_columns(inputs, name))


def label_column(inputs: Inputs, name: str) -> Column:
    """Returns the column of a task's label."""
    task = inputs.tasks[name]
    after = Column(
        name=inputs.label_of(name),
        type="float",
        is_required=task.missing_label == "drop",
        is_label=True,
        is_after_event=True,
    )
    match task:
        case BinaryTask():
            return replace(after, type="int", is_binary=True)
        case RegressionTask():
            return replace(after, is_not_negative=isinstance(task.loss, LogError))
        case WatchTimeTask():
            return replace(after, is_not_negative=True)
        case _:
            assert_never(task)


def task_columns(inputs: Inputs, name: str) -> tuple[Column, ...]:
    """Returns every column that a task reads, its label first."""
    task, label = inputs.tasks[name], label_column(inputs, name)
    read = [label]
    if task.example_weight:
        # An example that may be outside the task needs no weight.
        required = label.is_required and task.only_where is None
        read.append(
            Column(
                name=task.example_weight,
                type="float",
                is_required=required,
                is_after_event=True,
                is_not_negative=True,
            )
        )
    if task.only_where:
        read.append(Column(name=task.only_where, type="int", is_required=False, is_after_event=True, is_binary=True))
    return tuple(read)


def readings(inputs: Inputs) -> Iterator[tuple[tuple[str, ...], Column]]:
    """Yields every column that the spec reads, with the path of the reader."""
    for name in inputs.features:
        yield from ((("features", name), column) for column in feature_columns(inputs, name))
    for name in inputs.tasks:
        yield from ((("tasks", name), column) for column in task_columns(inputs, name))
    for name, key in inputs.keys.items():
        column = Column(name=key.column or name, type=key.type, is_required=False, is_id=True)
        yield ("keys", name), column
    if inputs.event_time:
        yield ("event_time",), Column(name=inputs.event_time, type="int", time="event")


def columns(inputs: Inputs) -> list[Column]:
    """Returns every column read, once, sorted by name. It is required if one of its readers requires it."""
    return _merged(column for _, column in readings(inputs))


def serving_columns(inputs: Inputs) -> list[Column]:
    """Returns the columns of all features but bias features, which predictions need, once, sorted by name."""
    return _merged(
        column
        for name, feature in inputs.features.items()
        if not is_bias(feature)
        for column in feature_columns(inputs, name)
    )


def features_together(inputs: Inputs) -> frozenset[str]:
    """Returns the features of predictions that need their columns with equally many rows.

    Lists that are read with other lists alone have equally many rows anyway; matches find each id's list.
    """
    return frozenset(
        name
        for name, feature in inputs.features.items()
        if not isinstance(feature, ListFeature | MatchFeature)
        and not is_bias(feature)
        and len(feature_columns(inputs, name)) > 1
    )


def columns_together(inputs: Inputs) -> frozenset[str]:
    """Returns the columns of `features_together`, and lists beside these."""
    together = {column.name for name in features_together(inputs) for column in feature_columns(inputs, name)}
    lists = [
        [column.name for column in feature_columns(inputs, name) if column.is_list]
        for name, feature in inputs.features.items()
        if isinstance(feature, ListFeature)
    ]
    while more := {name for names in lists if together & set(names) for name in names} - together:
        together |= more
    return frozenset(together)


def drifting_columns(inputs: Inputs, name: str) -> list[Column]:
    """Returns the columns of a feature whose values are compared between days: not those of times and beside ids."""
    is_sequence = isinstance(inputs.features[name], SequenceFeature)
    return [
        column
        for column in feature_columns(inputs, name)
        if not column.beside and not (is_sequence and column.time is not None)
    ]


def is_bias(feature: object) -> bool:
    """Says whether predictions use a value of the spec for a feature, not the logs."""
    return isinstance(feature, BiasFeature) and feature.at_serving is not None


def features_of_new_ids(inputs: Inputs) -> list[str]:
    """Returns the features whose ids may be new to a model: features of kind id that are not bias features."""
    return [name for name, each in inputs.features.items() if isinstance(each, IdFeature) and not is_bias(each)]


def _merged(read: Iterable[Column]) -> list[Column]:
    """Returns every column once, sorted by name, with the requirements of all its readers."""
    by_name: dict[str, Column] = {}
    for column in read:
        known = by_name.setdefault(column.name, column)
        by_name[column.name] = replace(
            known,
            is_required=known.is_required or column.is_required,
            is_label=known.is_label or column.is_label,
            is_after_event=known.is_after_event or column.is_after_event,
            is_binary=known.is_binary or column.is_binary,
            is_not_negative=known.is_not_negative or column.is_not_negative,
            is_id=known.is_id or column.is_id,
            time="event" if "event" in (known.time, column.time) else known.time or column.time,
            length=known.length or column.length,
            last_values=max(known.last_values, column.last_values),
            beside=tuple(sorted({*known.beside, *column.beside})),
            not_after=known.not_after or column.not_after,
        )
    return [by_name[name] for name in sorted(by_name)]
