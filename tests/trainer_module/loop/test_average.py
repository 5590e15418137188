"""Averaged dense weights: what they are, who reads them, and where a training goes on with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer_module.sample_job import declared, write_examples

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

EMA = {"kind": "ema", "decay": 0.5}
LAST = {"kind": "last"}


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.input.local_reader import own_batches

    collectives.start()
    files = write_examples(tmp_path_factory.mktemp("data"), num_files=1, num_examples=320)
    return list(own_batches(declared(), files, epoch=0, rank=0, ranks=1))


def _trainer(average: dict[str, Any] | None) -> Any:
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    return InStepTrainer(Ranker(declared(average=average)), rank=0, ranks=1)


def _epoch(trainer: Any, epoch: int, batches: list[Any]) -> list[np.ndarray]:
    """Trains on batches of an epoch; returns the weights after each step."""
    trainer.begin_epoch(epoch)
    return [trainer.dense.flat.numpy() for _ in trainer.steps(batches)]


def _close(found: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_ema_follows_the_weights_faster_in_the_first_steps(batches: list[Any]) -> None:
    trainer = _trainer(EMA)
    expected = trainer.dense.flat.numpy()
    for step, weights in enumerate(_epoch(trainer, 0, [*batches, *batches, *batches]), 1):
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * weights
    assert step == 15 > 8  # From step 8 on the decay is that of the spec.
    _close(trainer.model, expected)


def test_last_is_the_mean_over_the_steps_of_the_epoch(batches: list[Any]) -> None:
    trainer = _trainer(LAST)
    for epoch in (0, 1):
        of_steps = _epoch(trainer, epoch, batches)
        _close(trainer.model, np.mean(of_steps, axis=0))
    # Without a step the mean is still that of the epoch before.
    before = trainer.model.numpy()
    trainer.begin_epoch(2)
    np.testing.assert_array_equal(trainer.model, before)


@pytest.mark.parametrize("average", [EMA, pytest.param(LAST, marks=pytest.mark.long)])
def test_training_goes_on_from_the_last_weights_and_predictions_are_of_the_average(
    batches: list[Any], average: dict[str, Any]
) -> None:
    plain, averaged = _trainer(None), _trainer(average)
    assert plain.model is plain.dense.flat
    for expected, found in zip(_epoch(plain, 0, batches), _epoch(averaged, 0, batches), strict=True):
        np.testing.assert_array_equal(found, expected)
    logits = averaged.logits(batches[0])
    assert np.abs(logits - plain.logits(batches[0])).max() > 1e-3
    plain.dense.flat.assign(averaged.model)
    np.testing.assert_array_equal(plain.logits(batches[0]), logits)


@pytest.mark.parametrize("average", [EMA, pytest.param(LAST, marks=pytest.mark.long)])
def test_a_skipped_step_is_in_no_average(batches: list[Any], average: dict[str, Any]) -> None:
    trainer, other = _trainer(average), _trainer(average)
    broken = {**batches[1], "floats": tf.fill(batches[1]["floats"].shape, float("inf"))}
    _epoch(trainer, 0, [batches[0], broken, batches[2]])
    _epoch(other, 0, [batches[0], batches[2]])
    assert trainer.step == 2
    np.testing.assert_array_equal(trainer.model, other.model)


@pytest.mark.parametrize("average", [EMA, pytest.param(LAST, marks=pytest.mark.long)])
def test_a_restored_trainer_goes_on_with_the_same_bits_in_the_middle_of_an_epoch(
    batches: list[Any], average: dict[str, Any]
) -> None:
    whole, first, second = (_trainer(average) for _ in range(3))
    for trainer in (whole, first):
        _epoch(trainer, 0, batches)
    _epoch(whole, 1, batches)
    _epoch(first, 1, batches[:2])
    second.restore(first.snapshot())
    np.testing.assert_array_equal(second.model, first.model)
    _epoch(second, 1, batches[2:])
    np.testing.assert_array_equal(second.dense.flat, whole.dense.flat)
    np.testing.assert_array_equal(second.model, whole.model)


def _warm_started(trainer: Any, average: dict[str, Any], directory: Path) -> Any:
    """Returns a trainer that starts from another training's checkpoint."""
    from tests.trainer_module.checkpoint.test_warm_start import _warm
    from tests.trainer_module.test_every_kind import _write_checkpoint

    _write_checkpoint(directory / "base", trainer)
    started = _trainer(average)
    started.restore(_warm(directory / "base", started.ranker.spec).snapshot, directory / "base", is_base=True)
    return started


def test_a_warm_start_continues_an_ema_from_the_base_s_average(batches: list[Any], tmp_path: Path) -> None:
    base = _trainer(EMA)
    _epoch(base, 0, [*batches, *batches])
    started = _warm_started(base, EMA, tmp_path)
    np.testing.assert_array_equal(started.model, base.model)
    # As the first step of a day, not as the eleventh of all.
    [weights] = _epoch(started, 0, batches[:1])
    _close(started.model, 2 / 11 * base.model.numpy() + 9 / 11 * weights)


def test_a_warm_start_begins_a_mean_anew(batches: list[Any], tmp_path: Path) -> None:
    base = _trainer(LAST)
    _epoch(base, 0, batches)
    started = _warm_started(base, LAST, tmp_path)
    np.testing.assert_array_equal(started.model, base.model)
    of_steps = _epoch(started, 0, batches[:3])
    _close(started.model, np.mean(of_steps, axis=0))


def test_from_a_base_without_an_average_it_begins_at_the_weights(batches: list[Any], tmp_path: Path) -> None:
    base = _trainer(None)
    _epoch(base, 0, batches)
    started = _warm_started(base, EMA, tmp_path)
    np.testing.assert_array_equal(started.model, base.dense.flat)
    np.testing.assert_array_equal(started.dense.flat, base.dense.flat)
