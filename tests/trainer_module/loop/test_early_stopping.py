"""When training ends, by made-up validation results."""

from typing import Any

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.loop.early_stopping import Point, StopDecision, is_due, judge, passes_of
from tests.errors import place_and_value


def _judged(
    aucs: list[float],
    rmses: list[float] | None = None,
    *,
    epochs: int = 9,
    moments: list[tuple[int, int]] | None = None,
    **stopping: Any,
) -> StopDecision:
    """Returns the verdict on scores after each epoch, or at `moments`: (epoch, steps), of epochs of 40 steps."""
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
    points = [
        Point(
            epoch, steps, 10 * steps, steps == 40, {"like": {"auc": auc}, "buy": {"auc": 0.5}, "watch": {"rmse": rmse}}
        )
        for (epoch, steps), auc, rmse in zip(
            moments or [(epoch, 40) for epoch in range(len(aucs))], aucs, rmses or [1.0] * len(aucs), strict=True
        )
    ]
    verdict = judge(ranker, points)
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


MOMENTS = [(0, 40), (1, 10), (1, 20), (1, 30), (1, 40), (2, 10)]


def test_within_an_epoch_patience_counts_scores_and_the_best_may_be_of_a_part_of_it() -> None:
    aucs = [0.60, 0.61, 0.63, 0.62, 0.625, 0.62]
    settings = {"task": "like", "per_epoch": 4, "patience": 3}
    assert _judged(aucs[:5], moments=MOMENTS[:5], **settings).reason is None
    ended = _judged(aucs, moments=MOMENTS, **settings)
    assert (ended.reason, ended.best_epoch, ended.best_point.steps) == ("not better for 3 scores", 1, 20)
    told = ended.document()
    assert (told["best_step"], told["is_within_epoch"], told["best"]) == (20, True, 0.63)
    assert told["points"] == [{"epoch": epoch, "step": step} for epoch, step in MOMENTS]


def test_only_the_end_of_the_last_epoch_ends_a_training_that_gets_better() -> None:
    aucs = [0.60, 0.61, 0.62, 0.63, 0.64]
    rising = {"epochs": 2, "task": "like", "per_epoch": 4}
    assert _judged(aucs[:4], moments=MOMENTS[:4], **rising).reason is None
    assert _judged(aucs, moments=MOMENTS[:5], **rising).reason == "all 2 epochs were trained"


def test_scores_within_an_epoch_come_evenly_and_once_from_the_second_on() -> None:
    def due(epoch: int, of_epoch: int, scored: int = 0) -> list[int]:
        steps = range(1, of_epoch + 1)
        return [step for step in steps if is_due(4, epoch=epoch, steps=step, scored=scored, of_epoch=of_epoch)]

    assert due(1, 40) == due(2, 40) == [10, 20, 30]
    assert due(1, 42) == [10, 21, 31]
    assert due(1, 3) == [1, 2]
    assert due(1, 40, scored=20) == [30]
    assert due(0, 40) == []
    assert not any(is_due(1, epoch=1, steps=step, scored=0, of_epoch=40) for step in range(41))


def test_a_refit_has_as_many_passes_as_the_best_point_and_the_part_of_one_comes_first() -> None:
    assert passes_of(Point(0, 40, 400, True, {}), 400) == [1.0]
    assert passes_of(Point(2, 40, 400, True, {}), 400) == [1.0, 1.0, 1.0]
    assert passes_of(Point(2, 30, 300, False, {}), 400) == [0.75, 1.0, 1.0]
