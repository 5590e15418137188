"""N Horovod ranks learn what one process learns on the same global batches, and skip the same steps."""

import json
from pathlib import Path

import numpy as np
import pytest

from schemas.spec import Ranker as Declared
from tests.trainer_module.rank_processes import run_on_ranks
from tests.trainer_module.small_job import declared, job, write_examples

pytestmark = pytest.mark.slow

GLOBAL_BATCH = 66
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad", "adam", "ftrl")
TOLERANCE = 1e-5


def _declared(optimizer: str, ranks: int) -> Declared:
    """Returns the small ranker with two rules of admission, and one table with another optimizer."""
    ranker = declared(
        ranks=ranks,
        batch_size_per_rank=GLOBAL_BATCH // ranks,
        embedding_optimizer={"kind": optimizer, "learning_rate": 0.02},
        dense_optimizer={"kind": "sgd" if optimizer == "sgd" else "adam", "learning_rate": 0.01},
        evict_every_steps=4,
    )
    document = ranker.model_dump(mode="json", exclude_unset=True)
    document["tables"]["users"]["admission"] = {"kind": "count", "at_least": 4}
    document["tables"]["posts"]["optimizer"] = {"kind": "adam", "learning_rate": 0.01}
    document["tables"]["tags"]["admission"] = {"kind": "random", "probability": 0.3}
    return Declared.model_validate_json(json.dumps(document))


def train(rank: int, ranks: int, directory: Path) -> None:
    """Runs on every rank: one epoch for each optimizer, its results to files."""
    from trainer_module.input import own_batches
    from trainer_module.loop import Trainer
    from trainer_module.progress import Progress
    from trainer_module.ranker import Ranker

    files = tuple(sorted(str(file) for file in (directory.parent / "data").iterdir()))
    for optimizer in OPTIMIZERS:
        ranker = _declared(optimizer, ranks)
        trainer = Trainer(Ranker(ranker), rank=rank, ranks=ranks)
        batches = own_batches(ranker, files, epoch=0, rank=rank, ranks=ranks)
        report = trainer.train_epoch(batches, Progress(job(directory, ranker, files), rank))
        snapshot = trainer.snapshot()
        arrays = {f"dense/{name}": array for name, array in snapshot.dense.items()}
        for group, rows in snapshot.groups.items():
            arrays |= {f"keys/{group}": rows.keys, f"rows/{group}": rows.rows}
        np.savez(directory / f"{optimizer}-{rank}.npz", losses=np.array(report.step_losses), **arrays)
        (directory / f"{optimizer}-{rank}.json").write_text(json.dumps(trainer.statistics()))


def _read(directory: Path, optimizer: str, ranks: int) -> dict[str, np.ndarray]:
    """Returns dense weights, losses, and the rows of all ranks in the order of their keys."""
    parts = [dict(np.load(directory / f"{optimizer}-{rank}.npz")) for rank in range(ranks)]
    result = {name: array for name, array in parts[0].items() if name.startswith(("dense/", "losses"))}
    for name in parts[0]:
        if name.startswith("keys/"):
            group = name.removeprefix("keys/")
            keys = np.concatenate([part[name] for part in parts])
            order = np.argsort(keys)
            result[name] = keys[order]
            result[f"rows/{group}"] = np.concatenate([part[f"rows/{group}"] for part in parts])[order]
    return result


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ranks")
    write_examples(root / "data")
    for ranks in (1, 2, 3):
        (root / f"{ranks}" / "logs").mkdir(parents=True)
        run_on_ranks(train, ranks, root / f"{ranks}")
    return root


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ranks_equal_one_process_on_the_same_global_batches(runs: Path, optimizer: str, ranks: int) -> None:
    alone, together = _read(runs / "1", optimizer, 1), _read(runs / f"{ranks}", optimizer, ranks)
    assert alone["losses"][-5:].mean() < alone["losses"][:5].mean()
    assert together.keys() == alone.keys()
    for name, expected in alone.items():
        if name.startswith("keys/"):
            assert len(expected) > 10
            np.testing.assert_array_equal(together[name], expected, err_msg=name)
        else:
            np.testing.assert_allclose(together[name], expected, atol=TOLERANCE, rtol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_owns_its_share_and_the_statistics_are_those_of_one_process(runs: Path, ranks: int) -> None:
    alone, together = (json.loads((runs / f"{number}" / "adam-0.json").read_text()) for number in (1, ranks))
    for table, expected in alone.items():
        for name in ("rows", "bytes", "admitted", "rejected", "evicted", "expired"):
            assert together[table][name] == expected[name], (table, name)
        assert 1.0 <= together[table]["load_max_over_mean"] < 1.7
        assert 0.0 < together[table]["unique_share"] <= 1.0
    assert alone["users"]["rejected"] > 0
    assert alone["tags"]["rejected"] > 0


def skip(rank: int, ranks: int, directory: Path) -> None:
    """Runs on every rank: the last one is given a batch whose feature is infinite, once, then for ever."""
    import tensorflow as tf

    from trainer_module.input import own_batches
    from trainer_module.loop import NotFiniteError, Trainer
    from trainer_module.progress import Progress
    from trainer_module.ranker import Ranker

    files = tuple(sorted(str(file) for file in (directory.parent / "data").iterdir()))
    ranker = declared(ranks=ranks, batch_size_per_rank=32, max_skipped_steps=2)
    progress = Progress(job(directory, ranker, files), rank)
    batches = list(own_batches(ranker, files, epoch=0, rank=rank, ranks=ranks))[:6]
    floats = tf.fill(tf.shape(batches[3]["floats"]), float("nan" if rank == ranks - 1 else "0"))
    bad = {**batches[3], "floats": floats}
    with_one_bad = Trainer(Ranker(ranker), rank=rank, ranks=ranks)
    report = with_one_bad.train_epoch([*batches[:3], bad, *batches[3:]], progress)
    assert report.skipped == 1
    assert len(report.step_losses) == 6
    without = Trainer(Ranker(ranker), rank=rank, ranks=ranks)
    without.train_epoch(batches, progress)
    for ours, expected in zip(
        (with_one_bad.snapshot(), without.snapshot()), (without.snapshot(), with_one_bad.snapshot()), strict=True
    ):
        assert ours.step == expected.step == 6
        for name, array in expected.dense.items():
            np.testing.assert_array_equal(ours.dense[name], array)
        for group, rows in expected.groups.items():
            np.testing.assert_array_equal(ours.groups[group].rows, rows.rows)
    try:
        without.train_epoch([bad, bad, bad], progress)
    except NotFiniteError as error:
        assert "not finite 3 steps in a row, after step 6" in str(error)
        (directory / f"raised-{rank}").touch()


def test_a_step_that_is_not_finite_on_one_rank_is_skipped_by_all_and_too_many_are_an_error(tmp_path: Path) -> None:
    write_examples(tmp_path / "data")
    (tmp_path / "run" / "logs").mkdir(parents=True)
    run_on_ranks(skip, 2, tmp_path / "run")
    assert [(tmp_path / "run" / f"raised-{rank}").exists() for rank in (0, 1)] == [True, True]
