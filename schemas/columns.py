"""The columns of the logs that a spec reads: the contract between ingestion, validation, Transform and serving."""

from dataclasses import dataclass, replace
from typing import Literal

from typing_extensions import assert_never

from schemas.features import IdFeature, IdsFeature, NumericFeature, SequenceFeature
from schemas.spec import Inputs
from schemas.tasks import BinaryTask, RegressionTask

EVENT_TIME = "_event_time"
"""Name of the event's time among Transform's outputs: no feature can have it."""

ColumnType = Literal["float", "int", "string"]


@dataclass(frozen=True)
class Column:
    """One column of the logs.

    Attributes:
        name: as it is spelled in the files.
        type: of a value.
        is_list: any number of values per row, none included; otherwise at most one.
        is_required: a row without a value is an anomaly.
        is_label: rows without a value are dropped and counted by ingestion; absent at serving.
        is_binary: the only values are 0 and 1.
        is_id: values are names, also where they are numbers.
    """

    name: str
    type: ColumnType
    is_list: bool = False
    is_required: bool = True
    is_label: bool = False
    is_binary: bool = False
    is_id: bool = False


def feature_column(inputs: Inputs, name: str) -> Column:
    """Returns the column that a feature reads."""
    feature, column = inputs.features[name], inputs.column_of(name)
    match feature:
        case NumericFeature():
            return Column(name=column, type=feature.type, is_required=feature.missing is None)
        case IdFeature():
            return Column(name=column, type=feature.type, is_required=feature.missing is None, is_id=True)
        case IdsFeature() | SequenceFeature():
            return Column(name=column, type=feature.type, is_list=True, is_required=False, is_id=True)
        case _:
            assert_never(feature)


def label_column(inputs: Inputs, name: str) -> Column:
    """Returns the column of a task's label."""
    task, column = inputs.tasks[name], inputs.label_of(name)
    match task:
        case BinaryTask():
            return Column(name=column, type="int", is_label=True, is_binary=True)
        case RegressionTask():
            return Column(name=column, type="float", is_label=True)
        case _:
            assert_never(task)


def columns(inputs: Inputs) -> list[Column]:
    """Returns every column read, once, by name. A column is required if one of its readers requires it."""
    read = [feature_column(inputs, name) for name in inputs.features]
    read += [label_column(inputs, name) for name in inputs.tasks]
    for name, key in inputs.keys.items():
        read.append(Column(name=inputs.column_of(name), type=key.type, is_required=False, is_id=True))
    if inputs.event_time:
        read.append(Column(name=inputs.event_time, type="int"))
    by_name: dict[str, Column] = {}
    for column in read:
        known = by_name.setdefault(column.name, column)
        by_name[column.name] = replace(
            column, is_required=known.is_required or column.is_required, is_id=known.is_id or column.is_id
        )
    return [by_name[name] for name in sorted(by_name)]
