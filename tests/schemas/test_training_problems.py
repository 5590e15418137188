"""Balances and early stopping that cannot work are refused, with the reason."""

from pathlib import Path
from typing import Any

import pytest

from schemas.loading import load_spec
from schemas.problems import SpecError
from tests.schemas.specs import REMOVED, changed, loaded, write

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
        STOPPING,
        STOPPING | {"training.early_stopping": {"task": "stars", "patience": 2, "min_change": 0.01}},
    ],
)
def test_what_can_work_is_taken(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert loaded(tmp_path, changes)
