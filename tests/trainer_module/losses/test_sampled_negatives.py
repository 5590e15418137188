"""From sampled negatives to the rates as they are: ingestion leaves negatives out, predictions are put right."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import RankerSpec
from tests.trainer_module.sample_job import job, train_on

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

KEEP = 0.1
NUM_ROWS, BATCH, EPOCHS = 100_000, 512, 12
Arrays = dict[str, np.ndarray]


def declared() -> RankerSpec:
    """Returns a small ranker of a rare click, whose negatives are sampled, and two tasks that go along with it."""
    return RankerSpec.model_validate_json(
        json.dumps(
            {
                "name": "sampled",
                "features": {"x": {"kind": "numeric", "normalize": "none"}},
                "tasks": {
                    "click": {"kind": "binary", "keep_negatives": KEEP},
                    "like": {"kind": "binary"},
                    "rating": {"kind": "regression"},
                },
                "model": {"kind": "shared_bottom", "bottom_units": [8], "tower_units": [8]},
                "training": {
                    "batch_size_per_rank": BATCH,
                    "epochs": EPOCHS,
                    "dense_optimizer": {"kind": "adam", "learning_rate": 0.02},
                    "embedding_optimizer": {"kind": "sgd", "learning_rate": 0.1},
                    "schedule": {"kind": "cosine", "decay_steps": 320},
                },
            }
        )
    )


def logs() -> Arrays:
    """Returns rows: one in 23 clicks, and who clicks likes more often and rates higher."""
    random = np.random.default_rng(3)
    x = random.normal(size=NUM_ROWS)
    click = random.random(NUM_ROWS) < 1 / (1 + np.exp(3.5 - x))
    like = random.random(NUM_ROWS) < np.where(click, 0.9, 0.2)
    rating = 1 + 0.5 * x + 4 * click + random.normal(size=NUM_ROWS)
    return {"x": x, "click": click.astype(np.int64), "like": like.astype(np.int64), "rating": rating}


def ingested(ranker: RankerSpec, rows: Arrays) -> Arrays:
    """Returns what ingestion makes of the rows for the train split."""
    from sangam.components.logs.rows.conversion import convert
    from sangam.components.logs.rows.sampling import sampled, sampling_of

    read, sampling = columns(ranker), sampling_of(ranker, "train")
    assert sampling
    batch = pa.RecordBatch.from_arrays([pa.array(rows[column.name]) for column in read], [c.name for c in read])
    left = sampled(convert(batch, read, "file").batch, np.arange(NUM_ROWS), sampling, "2024-03-01/part-0").batch
    return {name: np.array(values)[:, 0].astype(np.float32) for name, values in left.to_pydict().items()}


def batches(layout: Any, rows: Arrays, order: np.ndarray) -> list[Any]:
    """Returns the rows, packed in an order."""
    starts = range(0, len(order), BATCH)
    chosen = [order[start : start + BATCH] for start in starts]
    tensors = {name: np.asarray(values, np.float32) for name, values in rows.items()}
    return [layout.pack({name: tf.constant(values[rows_]) for name, values in tensors.items()}) for rows_ in chosen]


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Arrays, Arrays, Arrays]:
    """Returns the logs, those trained on, and the predictions of all logs."""
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    collectives.start()
    ranker, rows = declared(), logs()
    train = ingested(ranker, rows)
    directory = tmp_path_factory.mktemp("sampled")
    (directory / "logs").mkdir()
    trainer = InStepTrainer(Ranker(ranker), rank=0, ranks=1)
    progress = Progress(job(directory, ranker, ()), 0)
    random = np.random.default_rng(4)
    for _ in range(EPOCHS):
        order = random.permutation(len(train["x"]))
        train_on(trainer, batches(trainer.ranker.layout, train, order), progress)
    parts = [trainer.predict(batch) for batch in batches(trainer.ranker.layout, rows, np.arange(NUM_ROWS))]
    return rows, train, {task: np.concatenate([np.asarray(part[task]) for part in parts])[:, 0] for task in parts[0]}


def test_most_negatives_are_not_trained_on(predicted: Any) -> None:
    rows, train, _ = predicted
    assert rows["click"].mean() == pytest.approx(0.043, abs=0.002)
    assert train["click"].sum() == rows["click"].sum()
    assert train["click"].mean() == pytest.approx(0.31, abs=0.02)


def test_the_mean_prediction_is_the_true_rate_and_without_the_correction_far_off(predicted: Any) -> None:
    rows, _, predictions = predicted
    true_rate = rows["click"].mean()
    assert predictions["click"].mean() == pytest.approx(true_rate, rel=0.03)
    odds = predictions["click"] / (1 - predictions["click"]) / KEEP
    assert (odds / (1 + odds)).mean() > 5 * true_rate


def test_the_correction_holds_where_clicks_are_rare_and_where_they_are_not(predicted: Any) -> None:
    rows, _, predictions = predicted
    for chosen in (rows["x"] < -0.5, abs(rows["x"]) <= 0.5, rows["x"] > 0.5):
        assert predictions["click"][chosen].mean() == pytest.approx(rows["click"][chosen].mean(), rel=0.12)


@pytest.mark.parametrize("task", ["like", "rating"])
def test_other_tasks_predict_the_true_mean_and_not_that_of_the_sample(predicted: Any, task: str) -> None:
    rows, train, predictions = predicted
    assert predictions[task].mean() == pytest.approx(rows[task].mean(), rel=0.05)
    assert train[task].mean() > 1.5 * rows[task].mean()
