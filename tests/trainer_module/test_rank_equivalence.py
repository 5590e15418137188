"""Two Horovod ranks learn what one process learns on the same global batches."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from schemas.spec import Ranker
from tests.trainer_module.small_job import NUM_EXAMPLES, declared, read_rows, write_examples, write_job
from trainer_module.rendezvous import Rendezvous

pytestmark = pytest.mark.slow


def _train(directory: Path, ranker: Ranker, files: tuple[str, ...]) -> np.ndarray:
    """Runs the ranks of a job as processes and returns the losses: [steps, tasks]."""
    job_file = write_job(directory, ranker, files)
    with Rendezvous(ranker.cluster.ranks) as rendezvous:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "trainer_module", str(job_file), str(os.getpid()), ""],
                env={**os.environ, **rendezvous.environment(rank)},
                stderr=(directory / f"rank-{rank}.log").open("wb"),
            )
            for rank in range(ranker.cluster.ranks)
        ]
        codes = [process.wait(120) for process in ranks]
    assert codes == [0] * len(ranks), (directory / "rank-0.log").read_text()[-3000:]
    return np.load(directory / "output" / "losses.npy")


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_two_ranks_equal_one_process_on_the_same_global_batches(tmp_path: Path, optimizer: str) -> None:
    files = write_examples(tmp_path / "data")
    rows_of = {"embedding_optimizer": {"kind": optimizer, "learning_rate": 0.02}}
    alone = _train(tmp_path / "one", declared(ranks=1, batch_size_per_rank=64, **rows_of), files)
    together = _train(tmp_path / "two", declared(ranks=2, batch_size_per_rank=32, **rows_of), files)

    assert alone.shape == (-(-NUM_EXAMPLES // 64), 2)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert alone[-1, 0] < alone[0, 0]
    for dim in (4, 8):
        keys, rows = read_rows(tmp_path / "one", dim)
        keys_of_two, rows_of_two = read_rows(tmp_path / "two", dim)
        np.testing.assert_array_equal(keys_of_two, keys)
        np.testing.assert_allclose(rows_of_two, rows, atol=1e-5)
    owned = [len(np.load(file)["keys"]) for file in (tmp_path / "two" / "output" / "state").glob("rows-8-*.npz")]
    assert len(owned) == 2
    assert min(owned) > 0.35 * sum(owned)
    dense, dense_of_two = (np.load(tmp_path / run / "output" / "state" / "dense.npz") for run in ("one", "two"))
    for name in dense:
        np.testing.assert_allclose(dense_of_two[name], dense[name], atol=1e-5, err_msg=name)
