"""Logs that are right but odd: fewer rows than ranks need, no positives, features that say nothing."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.user_run import sangam, summary_of
from tests.odd_shell import ODD_SHELL

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

_DAYS = ("2024-03-01", "2024-03-02")
_SPEC: dict[str, Any] = {
    "name": "odd",
    "data": {"kind": "days", "format": "parquet", "pattern": "{YYYY}/{M}/{D}/*.parquet", "train_days": 1},
    "event_time": "event_time",
    "tables": {
        "users": {"dim": 4, "expire_after_days": 30},
        "posts": {"dim": 4},
        "levels": {"dim": 4},
        "tags": {"dim": 4},
    },
    "features": {
        "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users"},
        "post": {"kind": "id", "column": "post_id", "type": "int", "table": "posts"},
        "constant": {"kind": "numeric"},
        "constant_z": {"kind": "numeric", "column": "constant", "normalize": "zscore"},
        "constant_m": {"kind": "numeric", "column": "constant", "normalize": "minmax"},
        "nothing": {"kind": "numeric", "missing": "learned"},
        "nothing_z": {"kind": "numeric", "column": "nothing", "missing": "learned", "normalize": "zscore"},
        "nothing_p": {"kind": "numeric", "column": "nothing", "missing": 0, "encoding": {"kind": "periodic"}},
        "constant_b": {"kind": "buckets", "column": "constant", "num_buckets": 5, "table": "levels"},
        "nothing_b": {
            "kind": "buckets",
            "column": "nothing",
            "num_buckets": 5,
            "table": "levels",
            "missing_row": True,
        },
        "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
    },
    "tasks": {"like": {"kind": "binary"}, "rare": {"kind": "binary"}},
    "model": {"kind": "shared_bottom", "bottom_units": [8], "tower_units": [4]},
    "training": {
        "batch_size_per_rank": 128,
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.002},
        "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
    },
    "cluster": {"ranks": 2, "data_workers": 1},
    "evaluation": {"confidence": {"replicates": 10}},
    "gates": [{"task": "rare", "metric": "auc", "at_least": 0.0}],
    "push": {"kind": "directory", "path": "serving/odd"},
}


def _write(folder: Path, day: str, rows: int, *, is_last: bool) -> None:
    """Writes a day: constant in training and not afterwards; one user trains, one label is never 1 at the end."""
    random, date = np.random.default_rng(rows), datetime.date.fromisoformat(day)
    start = int(datetime.datetime(date.year, date.month, date.day, tzinfo=datetime.UTC).timestamp())
    rare = np.zeros(rows, np.int64)
    rare[: rows // 2] = 1
    if is_last:
        rare[2:] = 0
    columns = {
        "user_id": pa.array([f"u{number}" if is_last else "the only user" for number in range(rows)]),
        "post_id": pa.array(random.integers(0, 9, rows)),
        "constant": pa.array(np.linspace(-1e6, 1e6, rows) if is_last else np.full(rows, 7.0)),
        "nothing": pa.nulls(rows),
        "tags": pa.array([[]] * rows, pa.list_(pa.string())),
        "like": pa.array(np.zeros(rows, np.int64) if is_last else np.arange(rows) % 2),
        "rare": pa.array(rare),
        "event_time": pa.array(start + np.arange(rows)),
    }
    of_day = folder / f"{date.year}" / f"{date.month}" / f"{date.day}"
    of_day.mkdir(parents=True)
    pq.write_table(pa.table(columns), of_day / "part.parquet")


def test_a_run_on_odd_logs_from_an_odd_shell_ends_with_a_verdict(tmp_path: Path) -> None:
    # One of two ranks has nothing to train on.
    for day, number in zip(_DAYS, (1, 40), strict=True):
        _write(tmp_path / "logs", day, number, is_last=day == _DAYS[-1])
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(_SPEC))
    folders = ["--data", str(tmp_path / "logs"), "--root", str(tmp_path / "root")]
    done = sangam("run", str(spec), "--date", _DAYS[-1], *folders, variables=ODD_SHELL)
    assert "Traceback" not in done.stdout + done.stderr
    summary = summary_of(done.stdout)
    assert summary["status"] == "pushed", done.stdout + done.stderr
    assert summary["rows"]["train"]["written"] == 1
    # One class alone has no AUC, and two positives have one.
    assert summary["tasks"]["like"]["auc"] is None
    assert 0 <= summary["tasks"]["rare"]["auc"] <= 1
