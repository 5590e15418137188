"""Rows of raw examples, and the requests for them: as serialized examples, or as a tensor for each column."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts import export
from sangam.schemas.contracts.export import DESCRIPTION_FILE, ServedColumn
from sangam.schemas.derived.columns import serving_columns
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.events import EventTimes
from sangam.schemas.spec.features import AgeFeature, MatchFeature, SequenceFeature, TimeFeature
from sangam.schemas.spec.release import Evaluation

Values = list[Any]
"""The values of one column of one example: bytes, int or float; empty if missing."""
Rows = dict[str, list[Values]]
"""Column to the values of every example."""
Tensors = dict[str, NDArray[Any]]

_DTYPES: dict[ColumnType, Any] = {"string": np.object_, "int": np.int64, "float": np.float32}
_ENCODED: dict[ColumnType, str] = {"string": "bytes_list", "int": "int64_list", "float": "float_list"}


class Unfit(Exception):
    """The model cannot be served; the message has the reason."""


@dataclass(frozen=True)
class Description:
    """An exported model's description.

    Attributes:
        ranker: part of the spec that the model depends on.
        columns: columns that it reads, by name.
        signatures: names of its signatures.
    """

    ranker: RankerSpec
    columns: dict[str, ServedColumn]
    signatures: frozenset[str]

    @property
    def spec_columns(self) -> dict[str, Column]:
        """The model's columns in the spec, by name."""
        return {column.name: column for column in serving_columns(self.ranker)}

    @property
    def id_columns(self) -> list[str]:
        """The columns with ids."""
        return sorted(name for name, column in self.spec_columns.items() if column.is_id)

    @property
    def time_columns(self) -> list[str]:
        """The columns with times."""
        columns = set()
        for name, feature in self.ranker.features.items():
            match feature:
                case TimeFeature():
                    columns.add(self.ranker.column_of(name))
                case AgeFeature():
                    columns |= {feature.since, feature.at}
                case SequenceFeature(times=EventTimes(column=column, at=at)):
                    columns |= {column, at}
                case _:
                    pass
        return sorted(columns)

    def once(self, evaluation: Evaluation) -> list[str]:
        """Returns the columns of which a request for one user's candidates has a single row.

        These are the features by which the evaluation groups examples, the user's history (sequences, and lists in
        which an id is looked up), and the weights of these.
        """
        groupings = (evaluation.group, evaluation.confidence)
        names = {part.by for part in groupings if part is not None and part.by in self.ranker.features}
        names |= {name for name, feature in self.ranker.features.items() if isinstance(feature, SequenceFeature)}
        columns = {self.ranker.column_of(str(name)) for name in names}
        columns |= {feature.among for feature in self.ranker.features.values() if isinstance(feature, MatchFeature)}
        columns |= {column.name for column in self.spec_columns.values() if columns & set(column.beside)}
        return sorted(columns)


def read_description(model_dir: Path) -> Description:
    """Reads the model's description.

    Raises:
        Unfit: if it is missing or not in this version's format.
    """
    try:
        document = export.read_description(DESCRIPTION_FILE, (model_dir / DESCRIPTION_FILE).read_bytes())
    except FileNotFoundError:
        raise Unfit(f"{DESCRIPTION_FILE} is missing: the columns of the model are not known") from None
    except UserError as error:
        raise Unfit(str(error)) from None
    return Description(document.ranker, document.columns, frozenset(document.signatures))


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


def example_inputs(examples: Sequence[bytes]) -> Tensors:
    """Returns the inputs of `serving_default`."""
    return {"examples": np.array(examples, np.object_)}


def rank_inputs(rows: Rows, columns: Mapping[str, ServedColumn]) -> Tensors:
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


def num_rows(rows: Rows) -> int:
    """Returns the number of examples."""
    return len(next(iter(rows.values()), ()))


def select(rows: Rows, indices: Sequence[int]) -> Rows:
    """Returns the examples with these indices, in their order."""
    return {name: [values[index] for index in indices] for name, values in rows.items()}


def with_once(rows: Rows, once: Collection[str]) -> tuple[Rows, Rows]:
    """Returns the same request in two forms: the columns `once` with a single row, and with that row repeated."""
    broadcast = {name: values[:1] if name in once else values for name, values in rows.items()}
    repeated = {name: values[:1] * len(values) if name in once else values for name, values in rows.items()}
    return broadcast, repeated
