"""A log of purchases alone becomes a pushed model: ranked by hit rate and NDCG, with rates of the judged candidates."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.user_run import sangam, summary_of

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

_DAYS = [f"2024-03-0{day}" for day in range(1, 6)]
_MIDNIGHT = 1_709_251_200
_NUM_USERS, _NUM_ITEMS, _PER_DAY = 400, 80, 2_000
_JUDGED = 40
_SPEC: dict[str, Any] = {
    "name": "shop",
    "data": {
        "kind": "days",
        "format": "parquet",
        "pattern": "{YYYY}-{MM}-{DD}.parquet",
        "train_days": 4,
        "negatives": {
            "label": "bought",
            "item": "item_id",
            "user": "user_id",
            "item_columns": ["price"],
            "judged_per_positive": _JUDGED,
            "list_column": "purchase",
        },
    },
    "event_time": "at",
    "tables": {"users": {"dim": 8, "expire_after_days": 90}, "items": {"dim": 8}, "tastes": {"dim": 4}},
    "features": {
        "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users"},
        "item": {"kind": "id", "column": "item_id", "type": "int", "table": "items"},
        "taste": {"kind": "id", "type": "int", "table": "tastes"},
        "price": {"kind": "numeric", "clip": [0, 200], "log": True},
    },
    "keys": {"purchase": {"type": "int"}},
    "tasks": {"bought": {"kind": "binary"}},
    "model": {"kind": "shared_bottom", "bottom_units": [32], "tower_units": [16]},
    "training": {
        "batch_size_per_rank": 256,
        "epochs": 2,
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.003},
        "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.1},
    },
    "cluster": {"ranks": 1, "data_workers": 0},
    "evaluation": {"list": {"by": "purchase", "k": [10]}, "confidence": {"replicates": 10}},
    "gates": [
        # A random order has a hit rate of 10 in 41.
        {"task": "bought", "metric": "hit_rate_at_10", "at_least": 0.5},
        {"task": "bought", "metric": "mrr_at_10", "at_least": 0.15},
        {"task": "bought", "metric": "calibration", "at_least": 0.85, "at_most": 1.15},
    ],
    "push": {"kind": "directory", "path": "serving/shop"},
}


def _write_purchases(folder: Path) -> None:
    """Writes days in which users of four tastes buy items of their taste nine times of ten."""
    random = np.random.default_rng(7)
    for number, day in enumerate(_DAYS):
        users = random.integers(0, _NUM_USERS, _PER_DAY)
        of_taste = random.integers(0, _NUM_ITEMS // 4, _PER_DAY) * 4 + users % 4
        items = np.where(random.random(_PER_DAY) < 0.9, of_taste, random.integers(0, _NUM_ITEMS, _PER_DAY))
        table = {
            "user_id": [f"u{user}" for user in users],
            "item_id": items,
            "taste": users % 4,
            "price": 5.0 + items + number / 10,
            "at": _MIDNIGHT + 86_400 * number + np.sort(random.integers(0, 86_400, _PER_DAY)),
        }
        pq.write_table(pa.table(table), folder / f"{day}.parquet")


def test_purchases_become_a_pushed_model_whose_mean_prediction_is_the_rate_among_candidates(tmp_path: Path) -> None:
    logs, spec, root = tmp_path / "logs", tmp_path / "shop.yaml", tmp_path / "root"
    logs.mkdir()
    _write_purchases(logs)
    spec.write_text(json.dumps(_SPEC))
    done = sangam("run", str(spec), "--date", _DAYS[-1], "--data", str(logs), "--root", str(root))
    assert done.returncode == 0, done.stdout + done.stderr
    summary = summary_of(done.stdout)
    assert "Krichene and Rendle" in done.stdout
    assert [path.name for path in (root / "serving" / "shop").iterdir() if path.name.isdigit()]
    metrics = summary["tasks"]["bought"]["metrics"]
    assert metrics["mean_label"] == pytest.approx(1 / (1 + _JUDGED), rel=1e-5)
    assert metrics["mean_prediction"] == pytest.approx(metrics["mean_label"], rel=0.15)
    assert metrics["num_lists"] == _PER_DAY
