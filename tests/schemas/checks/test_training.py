"""Balances and early stopping that cannot work are refused, with the reason."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.errors import tells
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

SPLITS = {"data": {"kind": "splits", "format": "parquet", "splits": {"train": "a/*", "eval": "b/*"}}}
TABLE = {"kind": "table", "format": "parquet", "pattern": "*.parquet", "eval": {"fraction": 0.1}}
REFITTED = {
    "training.early_stopping": {"refit": True},
    "training.epochs": 5,
    "tasks.like.calibration": {"kind": "platt"},
}
GRADNORM = {"training.loss_balance": {"kind": "gradnorm"}}
STOPPING = {"training.early_stopping": {}, "training.epochs": 5, "data.validation_days": 1}
ONE_TASK = {"tasks.like": REMOVED, "gates.0": REMOVED}
SINGLE = {"model": {"kind": "single_task"}}


def _validated(validation: Any) -> dict[str, Any]:
    data = SPLITS["data"]
    return {"data": {**data, "splits": {**data["splits"], "validation": validation}}}


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        (
            ONE_TASK | {"training.loss_balance": {"kind": "uncertainty"}},
            "training.loss_balance",
            "(got uncertainty)",
        ),
        (GRADNORM | SINGLE, "training.loss_balance", "(got model single_task"),
        (STOPPING | {"data.validation_days": 0}, "training.early_stopping", "data.validation_days"),
        (
            STOPPING | {"training.epochs": 1},
            "training.early_stopping",
            "(got epochs 1)",
        ),
        (
            STOPPING | {"training.early_stopping": {"task": "lik"}},
            "training.early_stopping.task",
            "(got 'lik')",
        ),
        (
            STOPPING | ONE_TASK,
            "training.early_stopping",
            "(got no task)",
        ),
        (
            SPLITS | {"training.early_stopping": {"refit": True}, "training.epochs": 5},
            "training.early_stopping",
            "(got no data.splits.validation) ... {fraction: 0.1}",
        ),
        (
            SPLITS | _validated("c/*") | {"training.early_stopping": {"refit": True}, "training.epochs": 5},
            "training.early_stopping.refit",
            "(got data.splits.validation with files of its own",
        ),
        (
            STOPPING | {"training.early_stopping": {"refit": True}, "tasks.like.keep_negatives": 0.5},
            "training.early_stopping.refit",
            "(got keep_negatives",
        ),
        ({"training.order": "auto"}, "training.order", "(got none)"),
        (
            STOPPING | {"training.early_stopping": {"sample": 100}},
            "training.early_stopping.sample",
            "(got 100)",
        ),
        (
            STOPPING | {"training.early_stopping": {"per_epoch": 4, "refit": True}, "training.epochs": 1},
            "training.early_stopping.per_epoch",
            "(got 4, and epochs 1)",
        ),
        (
            STOPPING | {"training.early_stopping": {"per_epoch": 4}, "training.sync": {"kind": "stale"}},
            "training.early_stopping.per_epoch",
            "(got training.sync of kind stale)",
        ),
        (
            {"tasks.like.calibration": {"kind": "platt"}},
            "tasks.like.calibration",
            "(got platt, and data.validation_days 0)",
        ),
        (
            SPLITS | {"tasks.like.calibration": {"kind": "isotonic"}},
            "tasks.like.calibration",
            "(got isotonic, and no data.splits.validation)",
        ),
        (
            SPLITS | {"training.order": "shuffled_within_day"},
            "training.order",
            "(got shuffled_within_day of named splits)",
        ),
        (
            {"training.order": "time", "training.shuffle_buffer": 100},
            "training.shuffle_buffer",
            "(got 100, and order time)",
        ),
        (
            {"training.order": "shuffled", "training.shuffle_buffer": 1},
            "training.order",
            "(got shuffled, and",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    assert tells(str(caught.value), place, value), str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        GRADNORM,
        GRADNORM | {"model": {"kind": "single_task", "interaction": {"kind": "dcn_v2"}}},
        *({"training.order": order} for order in ("time", "shuffled_within_day", "shuffled")),
        SPLITS | {"training.order": "shuffled"},
        SPLITS | _validated({"fraction": 0.1}) | REFITTED,
        {"data": TABLE | {"validation": {"fraction": 0.1}}} | REFITTED,
        SPLITS | {"training.shuffle_buffer": 1},
        STOPPING,
        STOPPING | {"training.order": "auto"},
        STOPPING | {"training.early_stopping": {"refit": True}},
        STOPPING | {"training.early_stopping": {"refit": True}, "training.epochs": 1},
        STOPPING | {"training.early_stopping": {"refit": True}, "tasks.like.calibration": {"kind": "platt"}},
        STOPPING | {"training.early_stopping": {"per_epoch": 4, "sample": 100, "refit": True}},
        STOPPING | {"training.early_stopping": {"task": "stars", "patience": 2, "min_change": 0.01}},
    ],
)
def test_what_can_work_is_taken(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert loaded(tmp_path, changes)
