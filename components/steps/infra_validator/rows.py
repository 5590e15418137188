"""Rows of raw examples, and the two ways in which a server is asked about them."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import tensorflow as tf
from numpy.typing import NDArray

from schemas.derived.columns import Column, ColumnType, serving_columns
from schemas.derived.rank_inputs import LENGTH, MISSING
from schemas.spec import RankerSpec
from schemas.spec.features import AgeFeature, MatchFeature, SequenceFeature, TimeFeature
from schemas.spec.release import Evaluation

DESCRIPTION_FILE = "assets.extra/ranker.json"
EXAMPLES, RANK, TABLE_SIZE = "serving_default", "rank", "table_size"
"""The signatures that are asked."""

Values = list[Any]
"""The values of one column of one example: bytes, int or float; empty where it has none."""
Rows = dict[str, list[Values]]
"""Column to the values of every example."""
Tensors = dict[str, NDArray[Any]]

_DTYPES: dict[ColumnType, Any] = {"string": np.object_, "int": np.int64, "float": np.float32}
_ENCODED: dict[ColumnType, str] = {"string": "bytes_list", "int": "int64_list", "float": "float_list"}


class Unfit(Exception):
    """The model cannot be served; the text says why."""


class ServedColumn(pydantic.BaseModel):
    """A column that the model reads.

    Attributes:
        type: of a value.
        is_list: any number of values.
        input: its name among the inputs of `rank`.
    """

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)

    type: ColumnType
    is_list: bool
    input: str


@dataclass(frozen=True)
class Description:
    """What an exported model says of itself.

    Attributes:
        ranker: the part of the spec that it was made from.
        columns: by name.
        signatures: names.
    """

    ranker: RankerSpec
    columns: dict[str, ServedColumn]
    signatures: frozenset[str]

    @property
    def declared(self) -> dict[str, Column]:
        """The columns as the spec declares them, by name."""
        return {column.name: column for column in serving_columns(self.ranker)}

    @property
    def id_columns(self) -> list[str]:
        """The columns that hold ids."""
        return sorted(name for name, column in self.declared.items() if column.is_id)

    @property
    def time_columns(self) -> list[str]:
        """The columns that hold times."""
        found = set()
        for name, feature in self.ranker.features.items():
            match feature:
                case TimeFeature():
                    found.add(self.ranker.column_of(name))
                case AgeFeature():
                    found |= {feature.since, feature.at}
                case _:
                    pass
        return sorted(found)

    def once(self, evaluation: Evaluation) -> list[str]:
        """Returns the columns that a request for one user's candidates gives once.

        Those of the features that the evaluation groups users by, and what is a user's history: of sequences, and lists
        that an id is looked for in; and weights beside one of these.
        """
        parts = (evaluation.group, evaluation.confidence)
        named = {part.by for part in parts if part is not None and part.by in self.ranker.features}
        named |= {name for name, feature in self.ranker.features.items() if isinstance(feature, SequenceFeature)}
        found = {self.ranker.column_of(str(name)) for name in named}
        found |= {feature.among for feature in self.ranker.features.values() if isinstance(feature, MatchFeature)}
        found |= {column.name for column in self.declared.values() if found & set(column.beside)}
        return sorted(found)


def read_description(model_dir: Path) -> Description:
    """Reads what the model says of itself.

    Raises:
        Unfit: if it says nothing, or not what this version understands.
    """
    path = model_dir / DESCRIPTION_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Description(
            ranker=RankerSpec.model_validate_json(json.dumps(document["ranker"])),
            columns={name: ServedColumn.model_validate(column) for name, column in document["columns"].items()},
            signatures=frozenset(document["signatures"]),
        )
    except FileNotFoundError:
        raise Unfit(f"{DESCRIPTION_FILE} is missing: nothing says what the model reads") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unfit(f"{DESCRIPTION_FILE} cannot be read ({type(error).__name__}: {error})") from None


def read_rows(examples: Iterable[bytes], columns: Mapping[str, ServedColumn]) -> Rows:
    """Returns the columns' values of serialized tf.Examples."""
    rows: Rows = {name: [] for name in columns}
    for serialized in examples:
        features = tf.train.Example.FromString(serialized).features.feature
        for name, column in columns.items():
            values = getattr(features[name], _ENCODED[column.type]).value if name in features else ()
            rows[name].append(list(values))
    return rows


def to_examples(rows: Rows, columns: Mapping[str, ServedColumn]) -> list[bytes]:
    """Returns rows as serialized tf.Examples."""
    serialized = []
    for index in range(num_rows(rows)):
        example = tf.train.Example()
        for name, values in rows.items():
            if values[index]:
                getattr(example.features.feature[name], _ENCODED[columns[name].type]).value.extend(values[index])
        serialized.append(example.SerializeToString())
    return serialized


def asked_by_examples(examples: Sequence[bytes]) -> Tensors:
    """Returns the inputs of `serving_default`."""
    return {"examples": np.array(examples, np.object_)}


def asked_by_columns(rows: Rows, columns: Mapping[str, ServedColumn]) -> Tensors:
    """Returns the inputs of `rank`: [n] for a scalar; for a list [n, width], padded, and the lengths [n] int64."""
    tensors: Tensors = {}
    for name, values in rows.items():
        column = columns[name]
        if column.is_list:
            tensors[column.input], tensors[column.input + LENGTH] = _padded(values, column.type)
        else:
            first = [row[0] if row else MISSING[column.type] for row in values]
            tensors[column.input] = np.array(first, _DTYPES[column.type])
    return tensors


def _padded(values: Sequence[Values], type_: ColumnType) -> tuple[NDArray[Any], NDArray[np.int64]]:
    lengths = np.array([len(row) for row in values], np.int64)
    width = int(max(lengths, default=0))
    filler = b"" if type_ == "string" else 0
    padded = np.full((len(values), width), filler, _DTYPES[type_])
    for index, row in enumerate(values):
        padded[index, : len(row)] = row
    return padded, lengths


def rankable(rows: Rows, columns: Mapping[str, ServedColumn]) -> list[int]:
    """Returns the examples that `rank` can be asked about.

    Not those whose scalar holds the very value that stands for a missing one.
    """
    return [index for index in range(num_rows(rows)) if all(_is_sayable(rows[n][index], c) for n, c in columns.items())]


def _is_sayable(values: Values, column: ServedColumn) -> bool:
    if column.is_list or not values:
        return True
    return values[0] != MISSING[column.type] and values[0] == values[0]


def num_rows(rows: Rows) -> int:
    """Returns the number of examples."""
    return len(next(iter(rows.values()), ()))


def pick(rows: Rows, indices: Sequence[int]) -> Rows:
    """Returns some of the examples, in the order of the indices."""
    return {name: [values[index] for index in indices] for name, values in rows.items()}


def with_once(rows: Rows, once: Collection[str]) -> tuple[Rows, Rows]:
    """Returns one request said in two ways: columns of `once` given as one row, and the same row repeated."""
    broadcast = {name: values[:1] if name in once else values for name, values in rows.items()}
    repeated = {name: values[:1] * len(values) if name in once else values for name, values in rows.items()}
    return broadcast, repeated
