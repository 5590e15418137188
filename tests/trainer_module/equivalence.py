"""A ranker with rules of admission, expiry and eviction, and the state of a training as files."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from sangam.schemas.spec import RankerSpec
from tests.trainer_module.sample_job import declared

GLOBAL_BATCH = 66

TRAINING: dict[str, dict[str, Any]] = {
    "sgd": {
        "dense_optimizer": {"kind": "sgd", "learning_rate": 0.01, "momentum": 0.9},
        "clip_gradient_norm": 0.5,
        "schedule": {"kind": "step", "every_steps": 5, "factor": 0.5, "warmup_steps": 3},
    },
    "adagrad": {
        "dense_optimizer": {"kind": "adagrad", "learning_rate": 0.01},
        "loss_balance": {"kind": "gradnorm", "learning_rate": 0.01},
    },
    "rowwise_adagrad": {
        "dense_optimizer": {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1},
        "loss_balance": {"kind": "uncertainty"},
        "clip_gradient_norm": 1.0,
        "average": {"kind": "ema"},
    },
    "adam": {"dense_optimizer": {"kind": "adam", "learning_rate": 0.01}, "average": {"kind": "ema"}},
    "ftrl": {
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
        "schedule": {"kind": "cosine", "decay_steps": 10, "floor": 0.1, "warmup_steps": 2},
        "average": {"kind": "last"},
    },
}
MASKED = ("adagrad", "rowwise_adagrad")
WITH_PARTS = ("adam", "ftrl")
"""The optimizers with which an interaction of others is trained."""
WITH_CANDIDATES = "sgd"
"""The optimizer with which an encoder attends to a candidate. Not one that divides by gradients: where these are almost
0, as at the start of an attention between small rows, it makes whole steps of what sums round to."""
TOLERANCE = 1e-5


def with_rules(optimizer: str, ranks: int) -> RankerSpec:
    """Returns the small ranker with two rules of admission, expiry, two orders of eviction, and one table with another
    optimizer and decay."""
    ranker = declared(
        event_time="time",
        ranks=ranks,
        batch_size_per_rank=GLOBAL_BATCH // ranks,
        embedding_optimizer={"kind": optimizer, "learning_rate": 0.02},
        evict_every_steps=4,
        **TRAINING[optimizer],
    )
    document = ranker.model_dump(mode="json", exclude_unset=True)
    if optimizer in WITH_PARTS:
        document |= {"parts": ["tests.trainer_module.sample_parts"]}
        document["model"]["interaction"] = {"kind": "gated"}
    if optimizer == WITH_CANDIDATES:
        document["features"]["history"]["encoder"] = {"kind": "hstu", "target": "post", "num_layers": 2}
    document["tables"]["users"] |= {
        "admission": {"kind": "count", "at_least": 4},
        "capacity": {"rows": 31, "evict": "least_frequent"},
        "expire_after_days": 1,
    }
    document["tables"]["posts"] |= {
        "capacity": {"rows": 50},
        "optimizer": {"kind": "adam", "learning_rate": 0.01},
        "l2": 0.01,
        "unseen": 0.3,
    }
    document["tables"]["tags"]["admission"] = {"kind": "random", "probability": 0.3}
    document["tasks"]["like"]["calibration"] = {"kind": "isotonic"}
    return RankerSpec.model_validate_json(json.dumps(document))


def masked(batch: dict[str, Any]) -> dict[str, Any]:
    """Leaves the second task's label to a part of the examples, whichever rank has them."""
    import tensorflow as tf

    is_left_out = (batch["floats"] > 0.3) & tf.constant([[False, True]])
    return {**batch, "labels": tf.where(is_left_out, float("nan"), batch["labels"])}


def write_state(trainer: Any, losses: Any, file: Path) -> None:
    snapshot = trainer.snapshot()
    arrays = {f"dense/{name}": array for name, array in {**snapshot.dense, **snapshot.extra}.items()}
    for group, rows in snapshot.groups.items():
        arrays |= {f"keys/{group}": rows.keys, f"rows/{group}": rows.rows}
    np.savez(file, losses=np.array(losses), **arrays)


def read_state(directory: Path, optimizer: str, ranks: int) -> dict[str, np.ndarray]:
    """Returns dense weights, losses, and the rows of all ranks in the order of their keys."""
    parts = [dict(np.load(directory / f"{optimizer}-{rank}.npz")) for rank in range(ranks)]
    result = {name: array for name, array in parts[0].items() if name.startswith(("dense/", "losses"))}
    for name in parts[0]:
        if name.startswith("keys/"):
            group = name.removeprefix("keys/")
            keys = np.concatenate([part[name] for part in parts])
            order = np.argsort(keys)
            result[name] = keys[order]
            result[f"rows/{group}"] = np.concatenate([part[f"rows/{group}"] for part in parts])[order]
    return result
