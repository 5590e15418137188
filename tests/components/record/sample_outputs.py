"""What the steps of a whole run leave, small: every report that a run's record holds."""

import json
from pathlib import Path
from typing import Any

_ROWS = {"num_files": 2, "dropped": {"label missing: like": 3}, "ignored": {"not finite: price": 1}}
_SPLITS = {
    "train": {**_ROWS, "read": 30, "written": 25, "negatives_sampled_out": 2, "joined": {"posts": {"a": 1}}},
    "eval": {**_ROWS, "read": 10, "written": 7},
}
INGESTION: dict[str, Any] = {
    "date": "2024-03-07",
    "days": {"train": ["2024-03-05", "2024-03-06"], "eval": ["2024-03-07"]},
    "missing_days": ["2024-03-04"],
    "splits": _SPLITS,
    "base": {
        "checkpoint_uri": "/base/checkpoint",
        "days": ["2024-03-02", "2024-03-03"],
        "transform_graph_uri": "/base/graph",
        "model_uri": "/base/model",
        "inputs_digest": "i",
        "checkpoint_sha256": "",
        "transform_graph_sha256": "",
    },
    "notes": ["a note of ingestion"],
}
_TABLE = {"rows": 7, "bytes": 700, "admitted": 9, "rejected": 1, "evicted": 0, "expired": 1, "norms": [0, 7]}
TRAINING: dict[str, Any] = {
    "spec_digest": "unread",
    "examples": 1000,
    "examples_per_s": 250.5,
    "input_wait": 0.03,
    "rank_wait": 0.02,
    "skipped_steps": 1,
    "resumed_from_step": [40],
    "checkpoint": {"given_up": 1, "passed_over": ["damaged-40"], "blocked_s": 0.5},
    "warm_start": {"base_days": ["2024-03-03"], "loaded": ["a"], "new": ["b"], "dropped": []},
    "early_stopping": {"metric": "like.auc", "best_epoch": 1, "best": 0.94, "reason": "x", "values": [0.9, 0.94]},
    "notes": ["a note of training"],
    "refit": {"days": ["2024-03-06"], "passes": 2, "steps": 4},
    "tables": {"users": {**_TABLE, "load_max_over_mean": 1.25, "unique_share": 0.5}},
}
_GATE = {"kind": "value", "metric": "auc", "bound": 0.9, "value": 0.91, "passed": True, "reason": "auc is enough"}
EVALUATION: dict[str, Any] = {
    "blessed": False,
    "baseline": "/models/1",
    "notes": ["a note of the evaluation"],
    "tasks": {
        "like": {
            "metrics": {"auc": 0.91, "log_loss": 0.2},
            "intervals": {"auc": [0.9, 0.92]},
            "slices": {"tab=home": {"auc": 0.9}},
            "gates": [_GATE, {**_GATE, "kind": "change", "passed": False, "reason": "auc is worse"}],
        }
    },
}
SERVING: dict[str, Any] = {
    "blessed": True,
    "model_bytes": 12_345_678,
    "load_s": 3.21,
    "load": {"candidates": 200, "clients": 2},
    "checks": [{"name": "size", "passed": True, "reason": "small"}],
    "notes": ["a note of the serving check"],
    "p50_ms": 4.1,
    "p99_ms": 6.5,
    "requests": 1000,
}
_REPORTS = {
    "examples": ("ingestion.json", INGESTION),
    "training": ("training.json", TRAINING),
    "evaluation": ("verdict.json", EVALUATION),
    "infra_blessing": ("infra_verdict.json", SERVING),
}


def write_reports(folder: Path) -> dict[str, Path]:
    """Writes every report into a folder of its own; returns the folders by the name of the output."""
    folders = {name: folder / name for name in _REPORTS}
    for name, (file, document) in _REPORTS.items():
        folders[name].mkdir(parents=True)
        (folders[name] / file).write_text(json.dumps(document))
    return folders
