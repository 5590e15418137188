"""N Horovod ranks learn what one process learns on the same global batches, and skip the same steps."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec.tasks import BinaryTask
from sangam.trainer_module.checkpoint.manifest import read_manifest
from tests.errors import mentions
from tests.trainer_module.equivalence import (
    MASKED,
    TOLERANCE,
    WITH_CANDIDATES,
    masked,
    read_state,
    with_rules,
    write_state,
)
from tests.trainer_module.rank_processes import run_on_ranks
from tests.trainer_module.sample_job import NUM_EXAMPLES, declared, job, read_dense, read_rows, train_on, write_examples

pytestmark = pytest.mark.processes

OPTIMIZERS = {2: ("sgd", "adagrad"), 3: ("rowwise_adagrad", "ftrl")}
"""Of the rows, by the number of ranks; each with other settings of the dense part. Those left out have other rules of a
row, or of a weight, alone: no number of ranks is in them. Posts have adam in all."""


def train(rank: int, ranks: int, directory: Path) -> None:
    """Runs on every rank: an epoch for each optimizer, and validation; then a job that ends early. Writes files.

    Several ranks train with the last optimizer over Horovod and over TCP, then with all through memory.
    """
    from sangam.trainer_module import collectives

    optimizers = OPTIMIZERS[int(directory.parent.name)]
    if ranks == 1:
        _learn(optimizers, "", rank, ranks, directory, validates=True)
        return
    _learn(optimizers[-1:], "", rank, ranks, directory, validates=True)
    connected, together = directory / "connected", directory / "ranks"
    for folder in (connected, together):
        folder.mkdir(exist_ok=True)
    collectives.connect(connected)
    _learn(optimizers[-1:], "tcp-", rank, ranks, directory)
    collectives.share_memory(together)
    _learn(optimizers[:-1], "", rank, ranks, directory)
    _learn(optimizers[-1:], "shared-", rank, ranks, directory, validates=ranks == 2)
    if ranks == 3:
        _end_early(rank, ranks, directory / "ended", _files(directory))


def _files(directory: Path) -> tuple[str, ...]:
    return tuple(sorted(str(file) for file in (directory.parent / "data").iterdir()))


def _learn(
    optimizers: Sequence[str], prefix: str, rank: int, ranks: int, directory: Path, *, validates: bool = False
) -> None:
    """Trains with each optimizer, and may validate the last."""
    from sangam.trainer_module.input.local_reader import own_batches, validation_batches
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.loop.validation import validate
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    files = _files(directory)
    for optimizer in optimizers:
        ranker = with_rules(optimizer, ranks)
        trainer = InStepTrainer(Ranker(ranker), rank=rank, ranks=ranks)
        batches = own_batches(ranker, files, epoch=0, rank=rank, ranks=ranks)
        report = train_on(
            trainer,
            map(masked, batches) if optimizer in MASKED else batches,
            Progress(job(directory, ranker, files), rank),
        )
        write_state(trainer, report.step_losses, directory / f"{prefix}{optimizer}-{rank}.npz")
        (directory / f"{prefix}{optimizer}-{rank}.json").write_text(json.dumps(trainer.statistics()))
    if not validates:
        return
    read = list(validation_batches(ranker, files, rank=rank, ranks=ranks))
    validated = validate(trainer, read, Progress(job(directory, ranker, files), rank))
    calibrations = {task: fitted.model_dump() for task, fitted in validated.calibrations.items()}
    told = {"metrics": validated.metrics, "all": validated.examples, "calibrations": calibrations}
    told["own"] = sum(len(batch["labels"]) for batch in read)
    (directory / f"{prefix}validated-{rank}.json").write_text(json.dumps(told))


def _end_early(rank: int, ranks: int, directory: Path, files: tuple[str, ...]) -> None:
    from sangam.trainer_module.loop.training import train as train_job

    stopping = {
        "epochs": 12,
        "dense_precision": "auto",
        "early_stopping": {"task": "watch"},
        "checkpoint": {"every_steps": 9, "keep": 1},
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.05},
        "embedding_optimizer": {"kind": "adagrad", "learning_rate": 1.0},  # Soon worse.
    }
    ranker = declared(ranks=ranks, batch_size_per_rank=32, **stopping)
    like = BinaryTask.model_validate({"kind": "binary", "calibration": {"kind": "platt"}})
    ended = job(directory, ranker.model_copy(update={"tasks": {**ranker.tasks, "like": like}}), files)
    for folder in (ended.log_dir, ended.output_dir, ended.checkpoint_dir):
        Path(folder).mkdir(parents=True, exist_ok=True)
    train_job(ended, "", "0", rank=rank, ranks=ranks)


def _runs(root: Path, ranks: int) -> Path:
    """Trains alone and on ranks; returns the folder of both."""
    folder = root / f"{ranks}"
    write_examples(folder / "data", minutes_apart=10)
    for number in (1, ranks):
        (folder / f"{number}" / "logs").mkdir(parents=True)
        run_on_ranks(train, number, folder / f"{number}")
    return folder


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _runs(tmp_path_factory.mktemp("ranks"), 2)


@pytest.fixture(scope="module")
def of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _runs(tmp_path_factory.mktemp("ranks"), 3)


@pytest.fixture
def runs(ranks: int, request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue({2: "of_two", 3: "of_three"}[ranks])
    return folder


two_and_three = pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.long)])
each_optimizer = pytest.mark.parametrize(
    ("ranks", "optimizer"),
    [
        pytest.param(ranks, optimizer, marks=[pytest.mark.long] * (ranks == 3))
        for ranks, optimizers in OPTIMIZERS.items()
        for optimizer in optimizers
    ],
)


@each_optimizer
def test_ranks_equal_one_process_on_the_same_global_batches(runs: Path, optimizer: str, ranks: int) -> None:
    alone, together = read_state(runs / "1", optimizer, 1), read_state(runs / f"{ranks}", optimizer, ranks)
    assert alone["losses"][-5:].mean() < alone["losses"][:5].mean()
    assert together.keys() == alone.keys()
    # Attention adds up more products, in another order.
    tolerance = 10 * TOLERANCE if optimizer == WITH_CANDIDATES else TOLERANCE
    for name, expected in alone.items():
        if name.startswith("keys/"):
            assert len(expected) > 10
            np.testing.assert_array_equal(together[name], expected, err_msg=name)
        else:
            np.testing.assert_allclose(together[name], expected, atol=tolerance, rtol=tolerance, err_msg=name)


@two_and_three
def test_ranks_learn_the_same_bits_over_tcp_as_through_memory(runs: Path, ranks: int) -> None:
    optimizer = OPTIMIZERS[ranks][-1]
    for rank in range(ranks):
        shared, over_tcp = (
            np.load(runs / f"{ranks}" / f"{prefix}-{optimizer}-{rank}.npz") for prefix in ("shared", "tcp")
        )
        assert shared.files == over_tcp.files
        for name in shared.files:
            np.testing.assert_array_equal(over_tcp[name], shared[name], err_msg=name)


@pytest.mark.parametrize("optimizer", OPTIMIZERS[2][-1:])
def test_two_ranks_learn_the_same_bits_through_memory_as_by_horovod(of_two: Path, optimizer: str) -> None:
    for rank in range(2):
        by_horovod, shared = (
            np.load(of_two / "2" / f"{name}-{rank}.npz") for name in (optimizer, f"shared-{optimizer}")
        )
        assert by_horovod.files == shared.files
        for name in by_horovod.files:
            np.testing.assert_array_equal(shared[name], by_horovod[name], err_msg=name)
        told = [(of_two / "2" / f"{name}-{rank}.json").read_text() for name in (optimizer, f"shared-{optimizer}")]
        assert told[0] == told[1]
    validated = json.loads((of_two / "2" / "shared-validated-0.json").read_text())
    assert validated == json.loads((of_two / "2" / "validated-0.json").read_text())


@pytest.mark.long
@pytest.mark.parametrize("optimizer", OPTIMIZERS[3][-1:])
def test_three_ranks_learn_through_memory_what_they_learn_by_horovod(of_three: Path, optimizer: str) -> None:
    # Three numbers have several sums; all ranks take the same one.
    alone = read_state(of_three / "3", optimizer, 3)
    together = read_state(of_three / "3", f"shared-{optimizer}", 3)
    for name, expected in alone.items():
        np.testing.assert_allclose(together[name], expected, atol=TOLERANCE, rtol=TOLERANCE, err_msg=name)
    first, *others = (np.load(of_three / "3" / f"shared-{optimizer}-{rank}.npz") for rank in range(3))
    for other in others:
        for name in (name for name in first.files if name.startswith("dense/")):
            np.testing.assert_array_equal(other[name], first[name], err_msg=name)


@two_and_three
def test_validation_is_read_once_by_all_ranks_together_and_gives_what_one_process_gives(runs: Path, ranks: int) -> None:
    [alone], told = (
        [json.loads((runs / f"{number}" / f"validated-{rank}.json").read_text()) for rank in range(number)]
        for number in (1, ranks)
    )
    assert alone["own"] == alone["all"] == NUM_EXAMPLES
    assert [of_rank["all"] for of_rank in told] == [NUM_EXAMPLES] * ranks
    # Three files: a rank reads one or two of them.
    assert [of_rank["own"] for of_rank in told] == {2: [669, 334], 3: [335, 334, 334]}[ranks]
    for task, metrics in alone["metrics"].items():
        for of_rank in told:
            assert of_rank["metrics"][task] == pytest.approx(metrics, abs=1e-4)


@two_and_three
def test_all_ranks_fit_the_calibration_that_one_process_fits(runs: Path, ranks: int) -> None:
    alone, *together = (
        json.loads((runs / place).read_text())["calibrations"]["like"]
        for place in ("1/validated-0.json", *(f"{ranks}/validated-{rank}.json" for rank in range(ranks)))
    )
    assert together == [together[0]] * ranks
    assert {**together[0], "logits": [], "calibrated": []} == {**alone, "logits": [], "calibrated": []}
    at = np.linspace(-4, 4, 50)
    found, expected = (np.interp(at, fitted["logits"], fitted["calibrated"]) for fitted in (together[0], alone))
    # Rounding moves some logits to the bin beside theirs.
    np.testing.assert_allclose(found, expected, atol=0.02)


@two_and_three
def test_every_rank_owns_its_share_and_the_statistics_are_those_of_one_process(runs: Path, ranks: int) -> None:
    alone, together = (
        json.loads((runs / f"{number}" / f"{OPTIMIZERS[ranks][-1]}-0.json").read_text()) for number in (1, ranks)
    )
    for table, expected in alone.items():
        for name in ("rows", "bytes", "admitted", "rejected", "evicted", "expired"):
            assert together[table][name] == expected[name], (table, name)
        assert 1.0 <= together[table]["load_max_over_mean"] < 1.7
        assert 0.0 < together[table]["unique_share"] <= 1.0
    assert alone["users"]["rejected"] > 0
    assert alone["tags"]["rejected"] > 0
    assert (alone["users"]["rows"], alone["posts"]["rows"]) == (31, 50)
    assert min(alone["users"]["expired"], alone["users"]["evicted"], alone["posts"]["evicted"]) > 10


@pytest.mark.long
def test_ranks_choose_a_precision_and_keep_the_best_epoch_together(of_three: Path) -> None:
    ended = of_three / "3" / "ended"
    report = json.loads((ended / "output" / "training.json").read_text())
    precision = read_manifest(ended / "final").dense_precision
    assert f"auto chose {precision}" in report["notes"][0]
    best, values = report["best_epoch"], report["early_stopping"]["values"]
    assert best == int(np.argmin(values)) == len(values) - 2
    step = sum(epoch["steps"] for epoch in report["epochs"][: best + 1])
    kept = ended / "checkpoints" / f"step-{step:012d}.best"
    for group in ("adagrad_4", "adagrad_8"):
        for array, expected in zip(read_rows(ended / "final", group), read_rows(kept, group), strict=True):
            np.testing.assert_array_equal(array, expected)
    history = json.loads((kept / "history.json").read_text())["epochs"][best]
    [fitted] = read_manifest(ended / "final").calibrations.values()
    assert fitted == Calibration.model_validate_json(history["calibrations"]["like"])
    assert not fitted.problem
    expected_dense = read_dense(kept)
    for name, array in read_dense(ended / "final").items():
        np.testing.assert_array_equal(array, expected_dense[name])


def skip(rank: int, ranks: int, directory: Path) -> None:
    """Runs on every rank: the last one is given a batch whose feature is infinite, once, then for ever."""
    import tensorflow as tf

    from sangam.trainer_module.input.local_reader import own_batches
    from sangam.trainer_module.loop.epoch import NotFiniteError
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.progress import Progress
    from sangam.trainer_module.ranker import Ranker

    files = tuple(sorted(str(file) for file in (directory.parent / "data").iterdir()))
    ranker = declared(ranks=ranks, batch_size_per_rank=32, max_skipped_steps=2)
    progress = Progress(job(directory, ranker, files), rank)
    batches = list(own_batches(ranker, files, epoch=0, rank=rank, ranks=ranks))[:6]
    floats = tf.fill(tf.shape(batches[3]["floats"]), float("nan" if rank == ranks - 1 else "0"))
    bad = {**batches[3], "floats": floats}
    with_one_bad = InStepTrainer(Ranker(ranker), rank=rank, ranks=ranks)
    report = train_on(with_one_bad, [*batches[:3], bad, *batches[3:]], progress)
    assert report.skipped == 1
    assert len(report.step_losses) == 6
    without = InStepTrainer(Ranker(ranker), rank=rank, ranks=ranks)
    train_on(without, batches, progress)
    for ours, expected in zip(
        (with_one_bad.snapshot(), without.snapshot()), (without.snapshot(), with_one_bad.snapshot()), strict=True
    ):
        assert ours.step == expected.step == 6
        for name, array in expected.dense.items():
            np.testing.assert_array_equal(ours.dense[name], array)
        for group, rows in expected.groups.items():
            np.testing.assert_array_equal(ours.groups[group].rows, rows.rows)
    try:
        train_on(without, [bad, bad, bad], progress)
    except NotFiniteError as error:
        assert mentions(str(error), "not finite 3 steps ... step 6")
        (directory / f"raised-{rank}").touch()


@pytest.mark.long
def test_a_step_that_is_not_finite_on_one_rank_is_skipped_by_all_and_too_many_are_an_error(tmp_path: Path) -> None:
    write_examples(tmp_path / "data")
    (tmp_path / "run" / "logs").mkdir(parents=True)
    run_on_ranks(skip, 2, tmp_path / "run")
    assert [(tmp_path / "run" / f"raised-{rank}").exists() for rank in (0, 1)] == [True, True]
