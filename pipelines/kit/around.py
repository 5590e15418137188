"""The smallest spec that has a part, and rows of its logs."""

from typing import Any

import numpy as np

from sangam.schemas.derived.columns import columns
from sangam.schemas.errors import UserError
from sangam.schemas.loading.documents import Document, check_document
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.kinds import Part
from sangam.schemas.parts.roles import (
    Architecture,
    BinaryLoss,
    DenseOptimizer,
    Encoder,
    Feature,
    Interaction,
    RegressionLoss,
)
from sangam.schemas.spec import Spec

PART = "part"
"""Name of the feature that is, or has, the part."""
DIM = 4
Rows = list[dict[str, list[Any]]]
_MISSING_SHARE = 0.2
_START = 1_700_000_000
"""A time of November 2023, in seconds since 1970."""


def spec_around(part: Part) -> Spec:
    """Returns a spec of two tasks, two ids, a sequence and a number, with the part in its place.

    Raises:
        UserError: the part's role has no place in a training, or the spec has mistakes, such as a part that names
            features that the spec has not: user, item, recent, price.
    """
    document = _document() | {"parts": [type(part).__module__]}
    _place(document, part, part.model_dump(mode="json"))
    return _checked(document)


def around_nothing() -> Spec:
    """Returns the spec without a part."""
    return _checked(_document())


def _checked(document: Document) -> Spec:
    found = check_document(document)
    if isinstance(found, Spec):
        return found
    raise UserError("\n".join(f"spec of the kit: {problem}" for problem in found))


def _document() -> Document:
    return {
        "name": "kit",
        "data": {"kind": "splits", "format": "parquet", "splits": {"train": "train", "eval": "eval"}},
        "tables": {"users": {"dim": DIM}, "items": {"dim": DIM}},
        "features": {
            "user": {"kind": "id", "type": "string", "table": "users"},
            "item": {"kind": "id", "type": "int", "table": "items"},
            "recent": {"kind": "sequence", "type": "int", "table": "items", "max_length": 5},
            "price": {"kind": "numeric", "normalize": "none", "missing": 0.0},
        },
        "tasks": {"click": {"kind": "binary", "missing_label": "mask"}, "rating": {"kind": "regression"}},
        "model": {"kind": "shared_bottom", "bottom_units": [8], "tower_units": [4]},
        "training": {
            "batch_size_per_rank": 16,
            "dense_optimizer": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9},
            "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
        },
        "gates": [{"task": "click", "metric": "auc", "at_least": 0.01}],
        "push": {"kind": "directory", "path": "serving"},
    }


def _place(document: Document, part: Part, written: dict[str, Any]) -> None:
    match part:
        case Feature():
            document["features"][PART] = written
            if table := part.table_name():
                document["tables"].setdefault(table, {"dim": DIM})
        case Encoder():
            document["features"]["recent"]["encoder"] = written
        case Interaction():
            document["model"]["interaction"] = written
        case Architecture():
            document["model"] = written
        case BinaryLoss():
            document["tasks"]["click"]["loss"] = written
        case RegressionLoss():
            document["tasks"]["rating"]["loss"] = written
        case DenseOptimizer():
            document["training"]["dense_optimizer"] = written
        case _:
            raise UserError(
                f"{type(part).__name__}: has no place in a training (got role '{part.role}'); the kit checks features, "
                "encoders, interactions, architectures, losses and dense optimizers"
            )


def rows_for(spec: Spec, count: int, seed: int) -> Rows:
    """Returns rows with every column that the spec reads: empty and missing values where they may be."""
    generator = np.random.default_rng(seed)
    return [{column.name: _values(column, generator) for column in columns(spec)} for _ in range(count)]


def without_values(spec: Spec, rows: Rows) -> Rows:
    """Returns the rows with no value where none is required."""
    required = {column.name for column in columns(spec) if column.is_required}
    return [{name: values if name in required else [] for name, values in row.items()} for row in rows]


def _values(column: Column, generator: np.random.Generator) -> list[Any]:
    size = 1
    if column.is_list:
        size = column.length or int(generator.integers(0, 6))
    if not column.is_required and generator.random() < _MISSING_SHARE:
        size = 0
    return [_value(column, generator) for _ in range(size)]


def _value(column: Column, generator: np.random.Generator) -> Any:
    number = int(generator.integers(0, 12))
    if column.is_binary:
        return number % 2
    if column.time:
        return _START + 40_000 * number
    match column.type:
        case "float":
            return float(np.float32(generator.uniform(0, 5)))
        case "int":
            return number
        case _:
            return f"{column.name} {number}"
