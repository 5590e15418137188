"""Balances and early stopping that cannot work are refused, with the reason."""

from pathlib import Path
from typing import Any

import pytest

from schemas.loading import load_spec
from schemas.problems import SpecError
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

SPLITS = {"data": {"kind": "splits", "format": "parquet", "splits": {"train": "a/*", "eval": "b/*"}}}
GRADNORM = {"training.loss_balance": {"kind": "gradnorm"}}
STOPPING = {"training.early_stopping": {}, "training.epochs": 5, "data.validation_days": 1}
ONE_TASK = {"tasks.like": REMOVED, "gates.0": REMOVED}
SINGLE = {"model": {"kind": "single_task"}}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            ONE_TASK | {"training.loss_balance": {"kind": "uncertainty"}},
            "training.loss_balance: has no effect: there is",
        ),
        (GRADNORM | SINGLE, "training.loss_balance: gradnorm compares the tasks' gradients of a layer that all share"),
        (STOPPING | {"data.validation_days": 0}, "training.early_stopping: needs examples that are not trained on"),
        (
            STOPPING | {"training.epochs": 1},
            "training.early_stopping: has no effect: there is one epoch (got epochs 1)",
        ),
        (
            STOPPING | {"training.early_stopping": {"task": "lik"}},
            "training.early_stopping.task: no such task (got 'lik'); declared tasks: like, stars",
        ),
        (
            STOPPING | ONE_TASK,
            "training.early_stopping: goes by the mean AUC of the binary tasks, and there is none (got no task); name",
        ),
        (
            SPLITS | {"training.early_stopping": {"refit": True}, "training.epochs": 5},
            "training.early_stopping.refit: is for validation days (got named splits, whose validation split is never",
        ),
        (
            STOPPING | {"training.early_stopping": {"refit": True}, "tasks.like.keep_negatives": 0.5},
            "training.early_stopping.refit: would train on all negatives of the validation days (got keep_negatives",
        ),
        (
            SPLITS | {"training.order": "shuffled_within_day"},
            "training.order: needs logs by day (got shuffled_within_day of named splits)",
        ),
        (
            {"training.order": "time", "training.shuffle_buffer": 100},
            "training.shuffle_buffer: has no effect: nothing is shuffled (got 100, and order time)",
        ),
        (
            {"training.order": "shuffled", "training.shuffle_buffer": 1},
            "training.order: has no effect: a buffer of one example shuffles nothing (got shuffled, and",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    assert [line for line in str(caught.value).splitlines() if problem in line], str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        GRADNORM,
        GRADNORM | {"model": {"kind": "single_task", "interaction": {"kind": "dcn_v2"}}},
        *({"training.order": order} for order in ("time", "shuffled_within_day", "shuffled")),
        SPLITS | {"training.order": "shuffled"},
        SPLITS | {"training.shuffle_buffer": 1},
        STOPPING,
        STOPPING | {"training.early_stopping": {"refit": True}},
        STOPPING | {"training.early_stopping": {"task": "stars", "patience": 2, "min_change": 0.01}},
    ],
)
def test_what_can_work_is_taken(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert loaded(tmp_path, changes)
