"""One small valid spec, and ways to write a change of it to a file."""

import copy
import json
from pathlib import Path
from typing import Any

from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec

Document = dict[str, Any]

VALID: Document = {
    "name": "small",
    "data": {"kind": "days", "format": "parquet", "pattern": "{YYYY}-{MM}-{DD}/*.parquet", "train_days": 2},
    "tables": {"users": {"dim": 8}, "tags": {"dim": 4}},
    "features": {
        "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users"},
        "friend": {"kind": "id", "type": "string", "table": "users", "missing": "nobody"},
        "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean", "max_values": 4},
        "recent": {
            "kind": "sequence",
            "type": "string",
            "table": "tags",
            "max_length": 3,
            "encoder": {"kind": "positional"},
        },
        "age": {"kind": "numeric", "normalize": "zscore", "clip": [0, 100], "log": True, "missing": 3},
    },
    "tasks": {"like": {"kind": "binary"}, "stars": {"kind": "regression", "label": "rating"}},
    "model": {"kind": "mmoe"},
    "training": {
        "batch_size_per_rank": 16,
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
        "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.1},
    },
    "evaluation": {"slices": [["user"], ["user", "friend"]]},
    "gates": [
        {"task": "like", "metric": "auc", "at_least": 0.6},
        {"task": "stars", "metric": "rmse", "at_most": 2.0, "max_rise": 0.1},
    ],
    "push": {"kind": "directory", "path": "serving/small"},
}


class _Removed:
    """Shown the same in every process: test runners compare the names of tests."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED: Any = _Removed()
"""As a value in `changed`: the key is taken away."""


def changed(changes: dict[str, Any]) -> Document:
    """Returns the valid document with values put at dotted paths; a list's positions are written as numbers."""
    document = copy.deepcopy(VALID)
    for path, value in changes.items():
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        node: Any = document
        for part in parents:
            node = node[part]
        if value is REMOVED:
            del node[last]
        elif isinstance(node, list) and last == len(node):
            node.append(copy.deepcopy(value))
        else:
            node[last] = copy.deepcopy(value)
    return document


def write(path: Path, document: Document) -> Path:
    """Writes a document; JSON is YAML."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def loaded(tmp_path: Path, changes: dict[str, Any] | None = None) -> Spec:
    """Returns the spec of the valid document with changes."""
    return load_spec(write(tmp_path / "spec.yaml", changed(changes or {})))
