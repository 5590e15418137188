"""The ranker's spec: it learns from the log of its own requests, and is compared with the tables."""

import json
from pathlib import Path
from typing import Any

NAME = "feed"
WINDOW_S = 1800
"""Seconds after a request in which clicks count."""
LOG_FILE_S = 900.0

_FEATURES: dict[str, Any] = {
    "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users"},
    "post": {"kind": "id", "column": "post_id", "type": "int", "table": "posts", "missing_row": True},
    "author": {"kind": "id", "column": "author_id", "type": "int", "table": "authors", "missing": 0},
    "language": {"kind": "id", "type": "string", "table": "words", "missing": "unknown"},
    "topic": {"kind": "id", "type": "string", "table": "words", "missing": "unknown"},
    "languages": {
        "kind": "cross",
        "columns": {"language": "string", "post_language": "string"},
        "table": "pairs",
    },
    "taste": {"kind": "cross", "columns": {"user_id": "string", "topic": "string"}, "table": "pairs"},
    "liked": {"kind": "ids", "type": "string", "table": "words", "combiner": "mean", "max_values": 10},
    "is_liked": {"kind": "match", "column": "topic", "among": "liked", "type": "string"},
    "duration_s": {"kind": "numeric", "clip": [0, 10_000_000], "log": True},
    "age": {"kind": "age", "since": "posted_at", "at": "asked_at", "unit": "hours", "clip": [0, 48], "missing": 0},
    "views": {"kind": "numeric", "type": "int", "clip": [0, 1_000_000], "log": True, "missing": 0},
    "clicks": {"kind": "numeric", "type": "int", "clip": [0, 1_000_000], "log": True, "missing": 0},
}


def _table(folder: str, key: str, key_type: str, columns: list[str], days: int) -> dict[str, Any]:
    return {
        "kind": "table",
        "pattern": f"{folder}/{{YYYY}}-{{MM}}-{{DD}}/*.parquet",
        "format": "parquet",
        "keys": {key: {"type": key_type, "column": "id"}},
        "time": "updated_at",
        "max_age_days": days,
        "columns": {name: {} for name in columns},
    }


def _actions(folder: str, column: str) -> dict[str, Any]:
    return {
        "kind": "actions",
        "pattern": f"{folder}/{{YYYY}}-{{MM}}-{{DD}}/*.parquet",
        "format": "parquet",
        "keys": {"request_id": {"type": "string"}, "post_id": {"type": "int"}},
        "time": "at",
        "window_s": WINDOW_S,
        "incomplete": "count",
        "columns": {column: {"take": "happened"}},
    }


SOURCES = {
    "shown": _actions("shown", "was_shown"),
    "clicks": _actions("clicked", "click"),
    "users": _table("users", "user_id", "string", ["language"], 2),
    "posts": _table("posts", "post_id", "int", ["author_id", "topic", "post_language", "duration_s", "posted_at"], 3),
    "counts": _table("counts", "post_id", "int", ["views", "clicks"], 1),
}


SERVING = {"log": {"share": 1.0, "file_every_s": LOG_FILE_S}, "load": {"candidates": 24, "seconds": 0.2}}
PUSH = {"kind": "directory", "path": f"serving/{NAME}"}


def document(**sections: Any) -> dict[str, Any]:
    """Returns a spec that learns from the log of requests, with some sections of one's own."""
    return {
        "name": NAME,
        "event_time": "shown_at",
        "data": {
            "kind": "served",
            "log": "requests",
            "train_days": 2,
            "missing_days": "skip",
            "sources": SOURCES,
        },
        "tables": {name: {"dim": 8} for name in ("users", "posts", "authors", "words", "pairs")},
        "features": _FEATURES,
        "tasks": {"click": {"kind": "binary", "only_where": "was_shown"}},
        "model": {"kind": "mmoe", "num_experts": 2, "expert_units": [32, 16], "tower_units": [8]},
        "training": {
            "mode": "incremental",
            "epochs": 2,
            "incremental_epochs": 1,
            "batch_size_per_rank": 256,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.003},
            "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.1},
        },
        "cluster": {"ranks": 1, "data_workers": 0},
        "evaluation": {"group": {"by": "user"}},
        "gates": [{"task": "click", "metric": "auc", "at_least": 0.3}, {"skew": "features", "at_most": 0.001}],
        "serving": SERVING,
        "push": PUSH,
    } | sections


def before() -> dict[str, Any]:
    """Returns the spec of the first version, whose rows were not served by anything of Sangam's."""
    data = {"kind": "days", "format": "parquet", "pattern": "before/{YYYY}-{MM}-{DD}/*.parquet", "train_days": 1}
    gates = [{"task": "click", "metric": "auc", "at_least": 0.0}]
    return document(data=data, gates=gates, online={})  # Which reads event_time, so that the log of requests has it.


def write(file: Path, spec: dict[str, Any]) -> Path:
    """Writes a spec; JSON is YAML."""
    file.write_text(json.dumps(spec, indent=1))
    return file
