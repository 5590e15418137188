"""What a model reads: its columns, and what a missing value in them does."""

from collections.abc import Iterator
from dataclasses import dataclass

from sangam.schemas.derived.columns import feature_columns, is_bias, serving_columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.features import (
    AgeFeature,
    BucketsFeature,
    CountFeature,
    CrossFeature,
    Feature,
    IdFeature,
    IdsFeature,
    MatchFeature,
    NumericFeature,
    RateFeature,
    SequenceFeature,
    TimeFeature,
    VectorFeature,
)


@dataclass(frozen=True)
class ModelColumn:
    """A column that a model reads.

    Attributes:
        name: name of the column.
        type: int, float or string, or `list of` one of them.
        features: features that read it.
        missing: what a missing value does, by feature.
    """

    name: str
    type: str
    features: tuple[str, ...]
    missing: dict[str, str]


def model_columns(inputs: Inputs) -> tuple[ModelColumn, ...]:
    """Returns the columns that predictions need, sorted by name."""
    readers: dict[str, dict[str, str]] = {}
    for name, column, missing in _readings(inputs):
        readers.setdefault(column, {})[name] = missing
    return tuple(
        ModelColumn(
            column.name,
            f"list of {column.type}" if column.is_list else column.type,
            tuple(readers[column.name]),
            readers[column.name],
        )
        for column in serving_columns(inputs)
    )


def _readings(inputs: Inputs) -> Iterator[tuple[str, str, str]]:
    for name, feature in inputs.features.items():
        if not is_bias(feature):
            for column in feature_columns(inputs, name):
                is_time_of_row = isinstance(feature, SequenceFeature) and column.time == "event"
                missing = (
                    "counts as the time of the newest event; training refuses such rows"
                    if is_time_of_row
                    else _missing(feature, is_required=column.is_required)
                )
                yield name, column.name, missing


def _missing(feature: Feature, *, is_required: bool) -> str:
    """Returns what a missing value does, as Transform's graph and the logs' checks treat it."""
    unusual = "; training refuses such rows" if is_required else ""
    match feature:
        case NumericFeature(missing="learned") | AgeFeature(missing="learned"):
            return "has an input of its own, which the model learns"
        case (
            NumericFeature(missing=float(value))
            | AgeFeature(missing=float(value))
            | BucketsFeature(missing=float(value))
        ):
            return f"counts as {value:g}"
        case NumericFeature() | AgeFeature():
            return f"counts as a number in the middle{unusual}"
        case BucketsFeature(missing_row=True) | TimeFeature(missing_row=True) | CrossFeature(missing_row=True):
            return "has a row of its own"
        case IdFeature(missing_row=True):
            return "has a row of its own"
        case IdFeature(missing=str() | int() as value):
            return f"counts as the id {value!r}"
        case IdFeature() | CrossFeature():
            return f"counts as no id: zeros{unusual}"
        case BucketsFeature() | TimeFeature():
            return f"counts as none{unusual}"
        case IdsFeature() | SequenceFeature():
            return "counts as an empty list: zeros"
        case VectorFeature(missing=float(value)):
            return f"counts as a vector of {value:g}"
        case VectorFeature():
            return f"counts as a vector of zeros{unusual}"
        case MatchFeature():
            return "does not match"
        case RateFeature() | CountFeature():
            return "counts as an id that is new"
        case _:
            return f"reaches `{feature.kind}` as NaN, 0 or an empty text{unusual}"
