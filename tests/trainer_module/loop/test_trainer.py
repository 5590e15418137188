"""A trainer alone in this process."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec
from tests.errors import place_and_value
from tests.trainer_module.sample_job import declared, job, train_on, write_examples

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    from sangam.trainer_module import collectives

    collectives.start()
    return write_examples(tmp_path_factory.mktemp("data"))


def _trainer(ranker: RankerSpec):  # type: ignore[no-untyped-def]
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    return InStepTrainer(Ranker(ranker), rank=0, ranks=1)


def _batches(ranker: RankerSpec, files: tuple[str, ...]):  # type: ignore[no-untyped-def]
    from sangam.trainer_module.input.local_reader import own_batches

    return own_batches(ranker, files, epoch=0, rank=0, ranks=1)


def _trained(ranker: RankerSpec, files: tuple[str, ...], directory: Path):  # type: ignore[no-untyped-def]
    from sangam.trainer_module.progress import Progress

    (directory / "logs").mkdir()
    trainer = _trainer(ranker)
    return trainer, train_on(trainer, _batches(ranker, files), Progress(job(directory, ranker, files), 0))


def test_predicting_makes_no_rows_and_unknown_ids_read_as_zeros(tmp_path: Path, files: tuple[str, ...]) -> None:
    trainer, _ = _trained(declared(), files, tmp_path)
    before = {group: store.contents()[0] for group, store in trainer.tables.stores.items()}
    strangers = tf.ragged.constant([[7_000_001], []], tf.int64, row_splits_dtype=tf.int64)
    batch = trainer.ranker.layout.pack(
        {
            "user": tf.constant([9_000_001, 9_000_002], tf.int64),
            "post": tf.constant([9_000_003, 9_000_004], tf.int64),
            "history": strangers,
            "tags": strangers,
            "age": tf.zeros([2]),
            "like": tf.zeros([2]),
            "watch": tf.zeros([2]),
        }
    )
    scores = trainer.predict(batch)
    np.testing.assert_array_equal(scores["like"][0], scores["like"][1])
    for group, store in trainer.tables.stores.items():
        np.testing.assert_array_equal(store.contents()[0], before[group])


def test_losses_that_stay_infinite_end_training_with_the_task_and_the_step(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    from sangam.trainer_module.loop.epoch import NotFiniteError

    diverging = declared(dense_optimizer={"kind": "sgd", "learning_rate": 1e30})
    with pytest.raises(NotFiniteError, match=place_and_value("...", "not finite 11 steps ... (got ... 'watch': ")):
        _trained(diverging, files, tmp_path)


def test_a_ranker_of_numbers_alone_needs_no_table(tmp_path: Path, files: tuple[str, ...]) -> None:
    document = declared(batch_size_per_rank=8).model_dump(mode="json")
    document["tables"] = {}
    document["features"] = {"age": document["features"]["age"]}
    _, report = _trained(RankerSpec.model_validate_json(json.dumps(document)), files, tmp_path)
    watch = np.array(report.step_losses)[:, 1]
    assert watch[-60:].mean() < 0.9 * watch[:60].mean()


def test_an_epoch_ends_with_an_eviction_by_the_newest_event_and_a_wrong_clock_expires_nothing(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    tables = {"users": {"expire_after_days": 1}, "posts": {"capacity": {"rows": 30}}}
    ranker = declared(tables=tables, event_time="time")
    (tmp_path / "logs").mkdir()
    batches = list(own_batches(ranker, files, epoch=0, rank=0, ranks=1))
    newest = max(int(tf.reduce_max(batch["event_time"])) for batch in batches) // 60
    batches[-1] = {**batches[-1], "event_time": batches[-1]["event_time"] + 400 * 86_400}

    def rows_after(last_minute: int | None) -> dict[str, int]:
        trainer = InStepTrainer(Ranker(ranker), rank=0, ranks=1, last_minute=last_minute)
        train_on(trainer, batches, Progress(job(tmp_path, ranker, files), 0))
        return {table: numbers["rows"] for table, numbers in trainer.statistics().items()}

    guarded, fooled = rows_after(newest), rows_after(None)
    assert guarded["posts"] == fooled["posts"] == 30
    assert guarded["users"] == 59
    assert fooled["users"] < 59


def test_the_heart_beats_during_an_eviction_that_lasts_and_the_report_counts_it(
    tmp_path: Path, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.loop import in_step as loop

    ranker = declared(tables={"posts": {"capacity": {"rows": 30}}}, event_time="time")
    heartbeat = job(tmp_path, ranker, files).heartbeat_file(0)
    beats = []

    def slow(*_: object, **__: object) -> Iterator[Any]:
        heartbeat.unlink(missing_ok=True)
        given_up = time.monotonic() + 30
        while not heartbeat.exists() and time.monotonic() < given_up:
            time.sleep(0.02)
        beats.append(heartbeat.exists())
        yield from ()

    monkeypatch.setattr(loop, "evict", slow)
    _, report = _trained(ranker, files, tmp_path)
    assert beats == [True, True]  # A group each, at the end of the epoch.
    assert 0.5 < report.evict_s < report.seconds


def test_the_minutes_of_a_time_in_another_unit_do_not_wrap(files: tuple[str, ...]) -> None:
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.ranker import Ranker

    ranker = declared(tables={"users": {"expire_after_days": 1}}, event_time="time")
    [batch, *_] = own_batches(ranker, files, epoch=0, rank=0, ranks=1)
    for seconds, minutes in ((1_700_000_000 * 1000, 2**31 - 1), (-(2**62), -(2**31)), (120, 2)):
        [found] = Ranker(ranker).minutes({**batch, "event_time": tf.fill(batch["event_time"].shape, seconds)}).values()
        assert set(found.numpy()) == {minutes}


def test_a_restored_trainer_goes_on_as_if_it_had_never_stopped(tmp_path: Path, files: tuple[str, ...]) -> None:
    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    admission = {"kind": "count", "at_least": 3, "counters": 1024}
    ranker = declared(tables={"users": {"admission": admission}, "posts": {"admission": admission}})
    (tmp_path / "logs").mkdir()
    progress = Progress(job(tmp_path, ranker, files), 0)
    batches = list(own_batches(ranker, files, epoch=0, rank=0, ranks=1))
    whole = InStepTrainer(Ranker(ranker), rank=0, ranks=1)
    expected = train_on(whole, batches, progress).step_losses
    first, second = (InStepTrainer(Ranker(ranker), rank=0, ranks=1) for _ in range(2))
    losses = train_on(first, batches[:7], progress).step_losses
    second.restore(first.snapshot())
    assert losses + train_on(second, batches[7:], progress).step_losses == expected
    assert second.statistics() == whole.statistics()


def test_bfloat16_is_for_products_alone(tmp_path: Path, files: tuple[str, ...]) -> None:
    half, half_report = _trained(declared(dense_precision="bfloat16"), files, tmp_path)
    (tmp_path / "full").mkdir()
    _, full_report = _trained(declared(), files, tmp_path / "full")
    assert {array.dtype for array in half.snapshot().dense.values()} == {np.dtype(np.float32)}
    assert half_report.step_losses != full_report.step_losses
    np.testing.assert_allclose(half_report.mean_losses(), full_report.mean_losses(), rtol=0.02)


@pytest.mark.long
@pytest.mark.parametrize("place", ["model", "tables"])
def test_dropout_is_of_training_alone(tmp_path: Path, files: tuple[str, ...], place: str) -> None:
    document = declared().model_dump(mode="json", exclude_unset=True)
    (document["model"] if place == "model" else document["tables"]["posts"])["dropout"] = 0.5
    dropping = RankerSpec.model_validate_json(json.dumps(document))
    trainer, report = _trained(dropping, files, tmp_path)
    (tmp_path / "all").mkdir()
    _, with_all = _trained(declared(), files, tmp_path / "all")
    assert report.step_losses[0] != with_all.step_losses[0]
    assert np.mean(report.step_losses[-5:]) < np.mean(report.step_losses[:5])
    batch = next(iter(_batches(dropping, files)))
    np.testing.assert_array_equal(trainer.predict(batch)["like"], trainer.predict(batch)["like"])


def test_watch_times_are_validated_as_times_over_those_who_take_part(tmp_path: Path, files: tuple[str, ...]) -> None:
    from sangam.trainer_module.loop.validation import validate
    from sangam.trainer_module.progress import Progress

    document = declared().model_dump(mode="json", exclude_unset=True)
    document["tasks"]["watch"] = {"kind": "watch_time", "unit": 2.0}
    ranker = RankerSpec.model_validate_json(json.dumps(document))
    batches = [
        {**batch, "labels": tf.where(batch["floats"] > [[9.0, 0.5]], float("nan"), tf.nn.relu(batch["labels"]))}
        for batch in _batches(ranker, files)
    ]
    (tmp_path / "logs").mkdir()
    progress = Progress(job(tmp_path, ranker, files), 0)
    trainer = _trainer(ranker)
    report = train_on(trainer, batches, progress)
    watch = np.array(report.step_losses)[:, 1]
    assert watch[-3:].mean() < watch[:3].mean()
    labels = np.concatenate([batch["labels"].numpy() for batch in batches])[:, 1]
    times = np.concatenate([trainer.predict(batch)["watch"] for batch in batches])[:, 0]
    errors = (times - labels)[~np.isnan(labels)]
    assert 0 < len(errors) < len(labels)
    results = validate(trainer, batches, progress).metrics
    assert results["watch"]["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))


def _after_one_batch(files: tuple[str, ...], rows: int, rate: float, *, in_proportion: bool) -> dict[str, np.ndarray]:
    """Returns the dense weights and the rows that one batch of so many rows, of 64, makes of a fresh model."""
    from sangam.trainer_module.input.example_reader import transformed_reader
    from sangam.trainer_module.input.local_reader import batches_of_file
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    sgd = {"kind": "sgd", "learning_rate": rate}
    ranker = declared(batch_size_per_rank=64, dense_optimizer=sgd, embedding_optimizer=sgd)
    trainer = InStepTrainer(Ranker(ranker), rank=0, ranks=1, in_proportion=in_proportion)
    batch = batches_of_file(transformed_reader(ranker), files[0], rows, rank=0, ranks=1)[0]
    assert [int(result.count) for result in trainer.steps([batch])] == [rows]
    rows_of = {name: store.contents()[1] for name, store in trainer.tables.stores.items()}
    return {"dense": trainer.dense.flat.numpy(), **rows_of}


@pytest.mark.long
def test_a_batch_that_is_a_quarter_full_moves_a_model_a_quarter_as_far_where_it_counts_in_proportion(
    files: tuple[str, ...],
) -> None:
    quarter = _after_one_batch(files, 16, 0.4, in_proportion=True)
    whole = _after_one_batch(files, 16, 0.1, in_proportion=False)
    assert quarter.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_allclose(quarter[name], values, rtol=1e-5, atol=1e-7, err_msg=name)
    assert not np.allclose(_after_one_batch(files, 16, 0.4, in_proportion=False)["dense"], whole["dense"], atol=1e-5)


@pytest.mark.long
def test_a_full_batch_counts_the_same_in_proportion(files: tuple[str, ...]) -> None:
    found = [_after_one_batch(files, 64, 0.1, in_proportion=in_proportion) for in_proportion in (True, False)]
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)
