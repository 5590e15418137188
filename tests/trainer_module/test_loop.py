"""A trainer alone in this process."""

import json
from pathlib import Path

import numpy as np
import pytest

from schemas.spec import Ranker as Declared
from tests.trainer_module.small_job import declared, job, write_examples

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    from trainer_module import collectives

    collectives.start()
    return write_examples(tmp_path_factory.mktemp("data"))


def _trained(ranker: Declared, files: tuple[str, ...], directory: Path):  # type: ignore[no-untyped-def]
    from trainer_module.input import own_batches
    from trainer_module.loop import Trainer
    from trainer_module.progress import Progress
    from trainer_module.ranker import Ranker

    (directory / "logs").mkdir()
    trainer = Trainer(Ranker(ranker), rank=0, ranks=1)
    batches = own_batches(ranker, files, epoch=0, rank=0, ranks=1)
    return trainer, trainer.train_epoch(batches, Progress(job(directory, ranker, files), 0))


def test_predicting_makes_no_rows_and_unknown_ids_read_as_zeros(tmp_path: Path, files: tuple[str, ...]) -> None:
    trainer, _ = _trained(declared(), files, tmp_path)
    before = {dim: store.contents()[0] for dim, store in trainer.tables.stores.items()}
    strangers = tf.ragged.constant([[7_000_001], []], tf.int64)
    batch = {
        "user": tf.constant([9_000_001, 9_000_002], tf.int64),
        "post": tf.constant([9_000_003, 9_000_004], tf.int64),
        "history": strangers,
        "tags": strangers,
        "age": tf.zeros([2]),
        "like": tf.zeros([2]),
        "watch": tf.zeros([2]),
    }
    scores = trainer.predict(batch)
    np.testing.assert_array_equal(scores["like"][0], scores["like"][1])
    for dim, store in trainer.tables.stores.items():
        np.testing.assert_array_equal(store.contents()[0], before[dim])


def test_a_loss_that_is_not_finite_ends_training_with_the_task_and_the_step(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    from trainer_module.loop import NotFiniteError

    diverging = declared(dense_optimizer={"kind": "sgd", "learning_rate": 1e30})
    with pytest.raises(NotFiniteError, match=r"not finite at step \d+ \(got .*'watch': .*lower training"):
        _trained(diverging, files, tmp_path)


def test_a_ranker_of_numbers_alone_needs_no_table(tmp_path: Path, files: tuple[str, ...]) -> None:
    document = declared(batch_size_per_rank=8).model_dump(mode="json")
    document["tables"] = {}
    document["features"] = {"age": document["features"]["age"]}
    _, report = _trained(Declared.model_validate_json(json.dumps(document)), files, tmp_path)
    watch = np.array(report.step_losses)[:, 1]
    assert watch[-60:].mean() < 0.9 * watch[:60].mean()
