"""The columns of the logs that a spec reads: the contract between ingestion, validation, Transform and serving."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from sangam.schemas.spec import Inputs
from sangam.schemas.spec.features import (
    AgeFeature,
    BiasFeature,
    BucketsFeature,
    ColumnType,
    CountFeature,
    CrossFeature,
    HistoryFeature,
    IdFeature,
    IdsFeature,
    MatchFeature,
    NumericFeature,
    RateFeature,
    SequenceFeature,
    TimeFeature,
    VectorFeature,
)
from sangam.schemas.spec.tasks import BinaryTask, LogError, RegressionTask, WatchTimeTask

EVENT_TIME = "_event_time"
"""Name of the event's time among Transform's outputs; no feature can have this name."""

WEIGHTS, SERVING, EXAMPLE_WEIGHT = "/weights", "/serving", "/example_weight"
"""Suffixes of a feature's or a task's name among Transform's outputs."""
HISTORY = "/history"
"""Suffix of a feature's name among the columns of Transform's graph that the logs do not have."""


TimeKind = Literal["event", "other"]
"""Kinds of a column of seconds since 1970: the time of the event, which is in the days of the logs, or another time."""


def weights_of(feature: str) -> str:
    """Returns the output with the weights of a feature's ids."""
    return feature + WEIGHTS


def serving_of(feature: str) -> str:
    """Returns the output that replaces a bias feature in predictions."""
    return feature + SERVING


def example_weight_of(task: str) -> str:
    """Returns the output with a task's example weights."""
    return task + EXAMPLE_WEIGHT


def history_of(feature: str) -> str:
    """Returns the column with the counts before the row's day, which Transform joins to the columns of the logs."""
    return feature + HISTORY


@dataclass(frozen=True)
class Column:
    """One column of the logs.

    Attributes:
        name: name in the files.
        is_list: any number of values per row, also none; otherwise at most one.
        is_required: a row without a value is an anomaly; without a label, ingestion drops and counts it.
        is_after_event: known only after the event, such as a label, `only_where` or a weight; absent at serving.
        is_binary: the only values are 0 and 1.
        is_not_negative: all values are at least 0.
        is_id: values identify something, even if they are numbers.
        time: the kind of time if values are seconds since 1970, else None.
        length: fixed length of the lists that are not empty, if any.
        last_values: number of values read from the end of each list.
        beside: columns whose lists have the same lengths, such as the ids of weights.
    """

    name: str
    type: ColumnType
    is_list: bool = False
    is_required: bool = True
    is_label: bool = False
    is_after_event: bool = False
    is_binary: bool = False
    is_not_negative: bool = False
    is_id: bool = False
    time: TimeKind | None = None
    length: int | None = None
    last_values: int = 0
    beside: tuple[str, ...] = ()

    @property
    def is_masked(self) -> bool:
        """Whether a row without this label is kept, outside the tasks that read it."""
        return self.is_label and not self.is_required


def feature_columns(inputs: Inputs, name: str) -> tuple[Column, ...]:
    """Returns every column that a feature reads."""
    feature = inputs.features[name]
    match feature:
        case NumericFeature():
            return (Column(name=feature.column or name, type=feature.type, is_required=feature.missing is None),)
        case BucketsFeature():
            required = feature.missing is None and not feature.missing_row
            return (Column(name=feature.column or name, type=feature.type, is_required=required),)
        case IdFeature():
            required = feature.missing is None and not feature.missing_row
            return (Column(name=feature.column or name, type=feature.type, is_required=required, is_id=True),)
        case CrossFeature():
            required = not feature.missing_row
            pair = sorted(feature.columns.items())
            return tuple(
                Column(name=column, type=kind, is_required=required, is_id=kind != "float") for column, kind in pair
            )
        case IdsFeature():
            ids = _ids(feature.column or name, feature.type)
            if feature.weights is None:
                return (ids,)
            weights = Column(name=feature.weights, type="float", is_list=True, is_required=False, beside=(ids.name,))
            return ids, weights
        case SequenceFeature():
            ids = _ids(feature.column or name, feature.type)
            return (replace(ids, last_values=feature.max_length if feature.keep == "last" else 0),)
        case VectorFeature():
            required = feature.missing is None
            column = feature.column or name
            return (Column(name=column, type="float", is_list=True, is_required=required, length=feature.dim),)
        case TimeFeature():
            required = not feature.missing_row
            return (Column(name=feature.column or name, type="int", is_required=required, time="other"),)
        case AgeFeature():
            both: dict[str, TimeKind] = {feature.since: "other", feature.at: "event"}
            return tuple(
                Column(name=column, type="int", is_required=feature.missing is None, time=kind)
                for column, kind in both.items()
            )
        case MatchFeature():
            one = Column(name=feature.column, type=feature.type, is_required=False, is_id=True)
            return one, _ids(feature.among, feature.type)
        case RateFeature() | CountFeature():
            return tuple(
                Column(name=column, type=kind, is_required=False, is_id=True)
                for column, kind in sorted(feature.by.items())
            )
        case _:
            assert_never(feature)


def graph_columns(inputs: Inputs, name: str) -> tuple[str, ...]:
    """Returns the columns that Transform's graph makes a feature of: columns of the logs, or the joined one."""
    if isinstance(inputs.features[name], HistoryFeature):
        return (history_of(name),)
    return tuple(column.name for column in feature_columns(inputs, name))


def _ids(column: str, kind: Literal["string", "int"]) -> Column:
    return Column(name=column, type=kind, is_list=True, is_required=False, is_id=True)


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
        )
    return [by_name[name] for name in sorted(by_name)]
