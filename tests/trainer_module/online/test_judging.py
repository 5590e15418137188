"""Progressive validation against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.online import Guard
from tests.trainer_module.sample_job import declared

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

_MINUTE = 28_000_000


@pytest.fixture(scope="module", autouse=True)
def _one_rank() -> None:
    from sangam.trainer_module import collectives

    collectives.start()


class _Scores:
    """Stands for a trainer whose logits are in the batch."""

    def __init__(self, spec: RankerSpec):
        from sangam.trainer_module.ranker import Ranker

        self.ranker = Ranker(spec)

    def logits(self, batch: dict[str, "tf.Tensor"]) -> "tf.Tensor":
        return batch["logits"]


def _batch(seed: int, *, shift: float = 0.0) -> dict[str, "tf.Tensor"]:
    random = np.random.default_rng(seed)
    logits = random.normal(size=(500, 2)).astype(np.float32)
    likes = (random.random(500) < 1 / (1 + np.exp(-logits[:, 0]))).astype(np.float32)
    likes[:7] = np.nan
    labels = np.stack([likes, logits[:, 1]], axis=1)
    return {"logits": tf.constant(logits + shift), "labels": tf.constant(labels)}


def _with_share(share: float) -> RankerSpec:
    spec = declared()
    task = spec.tasks["like"].model_copy(update={"keep_negatives": share})
    return spec.model_copy(update={"tasks": {**spec.tasks, "like": task}})


def test_values_are_those_of_the_last_minutes() -> None:
    from sangam.trainer_module.online.judging import Judge

    spec = declared()
    judge, scores = Judge(spec, ()), _Scores(spec)
    for number in range(3):
        judge.judge(scores, [_batch(number)], _MINUTE + 30 * number)  # type: ignore[arg-type]
    recent = [_batch(1), _batch(2)]
    labels = np.concatenate([batch["labels"][:, 0].numpy() for batch in recent])
    logits = np.concatenate([batch["logits"][:, 0].numpy() for batch in recent])
    has = ~np.isnan(labels)
    values = judge.values(minutes=60)["like"]
    assert values["examples"] == has.sum()
    assert values["auc"] == pytest.approx(roc_auc_score(labels[has], logits[has]), abs=1e-3)
    predicted = 1 / (1 + np.exp(-logits[has]))
    assert values["prediction_mean"] == pytest.approx(predicted.mean(), rel=1e-5)
    assert values["calibration"] == pytest.approx(predicted.mean() / labels[has].mean(), rel=1e-5)


def test_sampled_negatives_count_as_the_rows_that_they_stand_for() -> None:
    from sangam.trainer_module.online.judging import Judge

    spec = _with_share(0.25)
    judge = Judge(spec, ())
    batch = _batch(0)
    judge.judge(_Scores(spec), [batch], _MINUTE)  # type: ignore[arg-type]
    labels = batch["labels"][:, 0].numpy()
    positives, negatives = (labels == 1).sum(), (labels == 0).sum()
    assert judge.values()["like"]["label_mean"] == pytest.approx(positives / (positives + 4 * negatives))


@pytest.mark.parametrize(
    ("guard", "crossed"),
    [
        ({"metric": "auc", "at_least": 0.5}, False),
        ({"metric": "auc", "at_least": 0.99}, True),
        ({"metric": "calibration", "at_most": 1.2}, True),
        ({"metric": "prediction_mean", "at_most": 0.99}, False),
        ({"metric": "auc", "at_least": 0.99, "least_examples": 10_000}, False),
    ],
)
def test_a_guard_tells_what_is_crossed_once_there_are_enough_examples(guard: dict[str, object], crossed: bool) -> None:
    from sangam.trainer_module.online.judging import Judge

    spec = declared()
    judge = Judge(spec, [Guard.model_validate({"task": "like", "least_examples": 100, **guard})])
    judge.judge(_Scores(spec), [_batch(0, shift=1.0)], _MINUTE)  # type: ignore[arg-type]
    assert bool(judge.crossed()) is crossed
    if crossed:
        assert str(guard["metric"]) in judge.crossed()


def test_each_guard_judges_its_own_minutes() -> None:
    from sangam.trainer_module.online.judging import Judge

    spec = declared()
    common = {"task": "like", "metric": "prediction_mean", "at_most": 0.9, "least_examples": 1}
    for minutes, crossed in ((5, True), (500, False)):
        judge = Judge(spec, [Guard.model_validate({**common, "minutes": minutes})])
        for minute in range(10):
            judge.judge(_Scores(spec), [_batch(minute)], _MINUTE + minute)  # type: ignore[arg-type]
        judge.judge(_Scores(spec), [_batch(0, shift=9.0)], _MINUTE + 60)  # type: ignore[arg-type]
        assert bool(judge.crossed()) is crossed


@pytest.mark.parametrize("metric", ["auc", "calibration"])
def test_a_guard_holds_where_all_labels_are_the_same(metric: str) -> None:
    from sangam.trainer_module.online.judging import Judge

    spec = declared()
    judge = Judge(
        spec, [Guard.model_validate({"task": "like", "metric": metric, "at_least": 0.1, "least_examples": 9})]
    )
    lost = {**_batch(0), "labels": tf.zeros([500, 2])}
    judge.judge(_Scores(spec), [lost], _MINUTE)  # type: ignore[arg-type]
    assert "got 500 examples, all with label 0" in judge.crossed()


def test_a_guard_holds_where_predictions_are_not_numbers() -> None:
    from sangam.trainer_module.online.judging import Judge

    spec = declared()
    judge = Judge(spec, [Guard.model_validate({"task": "like", "metric": "auc", "at_least": 0.1, "least_examples": 9})])
    judge.judge(_Scores(spec), [_batch(0, shift=float("nan"))], _MINUTE)  # type: ignore[arg-type]
    assert "predictions that are not numbers" in judge.crossed()


def test_a_judge_that_is_restored_holds_what_it_held_and_segments_of_one_minute_take_one_place() -> None:
    from sangam.trainer_module.online.judging import Judge

    spec = declared()
    guards = [Guard.model_validate({"task": "like", "metric": "auc", "at_least": 0.99, "least_examples": 100})]
    judge, restored = Judge(spec, guards), Judge(spec, guards)
    for number in range(6):
        judge.judge(_Scores(spec), [_batch(number)], _MINUTE + number // 3)  # type: ignore[arg-type]
    state = judge.state()
    assert state["pairs"].shape == (2, 1, 2, 2000)
    assert restored.crossed() == ""
    restored.restore(state)
    assert judge.crossed() == restored.crossed() != ""
    assert restored.values() == judge.values()
