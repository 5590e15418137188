"""When training ends, by made-up validation results."""

from typing import Any

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.loop.early_stopping import StopDecision, judge
from tests.errors import place_and_value


def _judged(aucs: list[float], rmses: list[float] | None = None, *, epochs: int = 9, **stopping: Any) -> StopDecision:
    ranker = RankerSpec.model_validate(
        {
            "name": "small",
            "features": {"age": {"kind": "numeric", "normalize": "zscore"}},
            "tasks": {"like": {"kind": "binary"}, "buy": {"kind": "binary"}, "watch": {"kind": "regression"}},
            "model": {"kind": "mmoe"},
            "training": {
                "batch_size_per_rank": 8,
                "dense_optimizer": {"kind": "sgd", "learning_rate": 0.1},
                "embedding_optimizer": {"kind": "sgd", "learning_rate": 0.1},
                "epochs": epochs,
                "early_stopping": stopping,
            },
        }
    )
    validations = [
        {"like": {"auc": auc}, "buy": {"auc": 0.5}, "watch": {"rmse": rmse}}
        for auc, rmse in zip(aucs, rmses or [1.0] * len(aucs), strict=True)
    ]
    verdict = judge(ranker, validations)
    assert verdict is not None
    return verdict


def test_it_ends_when_no_epoch_was_better_for_as_long_as_patience_says() -> None:
    assert _judged([0.6, 0.7, 0.69], patience=2, task="like").reason is None
    ended = _judged([0.6, 0.7, 0.69, 0.7], patience=2, task="like")
    assert (ended.best_epoch, ended.reason, ended.metric) == (1, "not better for 2 epochs", "like.auc")
    assert not ended.last_is_best


def test_a_smaller_error_is_better() -> None:
    judged = _judged([0.5] * 3, [1.0, 0.8, 0.9], task="watch")
    assert (judged.best_epoch, judged.metric, judged.values) == (1, "watch.rmse", (1.0, 0.8, 0.9))


def test_without_a_task_the_mean_auc_of_the_binary_tasks_counts() -> None:
    judged = _judged([0.6, 0.8], [1.0, 9.0])
    assert (judged.metric, judged.best_epoch) == ("mean auc", 1)
    assert judged.values == pytest.approx((0.55, 0.65))


def test_small_changes_do_not_count_however_many_there_are_unless_they_add_up() -> None:
    assert _judged([0.60, 0.604, 0.608], task="like", patience=9, min_change=0.01).best_epoch == 0
    assert _judged([0.60, 0.604, 0.608, 0.612], task="like", patience=9, min_change=0.01).best_epoch == 3


def test_the_last_epoch_ends_it_too() -> None:
    ended = _judged([0.6, 0.7], epochs=2)
    assert (ended.reason, ended.last_is_best) == ("all 2 epochs were trained", True)
    assert ended.document()["best"] == pytest.approx(0.6)


def test_the_mean_leaves_out_a_task_without_both_classes_and_says_of_which_it_is() -> None:
    judged = _judged([float("nan")] * 2)
    assert (judged.metric, judged.values) == ("mean auc of buy", (0.5, 0.5))


def test_an_undefined_metric_is_an_error() -> None:
    with pytest.raises(UserError, match=place_and_value("training.early_stopping", "(got nan)")):
        _judged([float("nan")], task="like")
