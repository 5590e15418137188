"""Batches that a worker of the pool has taken with it when it was killed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.trainer_module.input.position import Position
from tests.trainer_module import sample_job as small_job
from tests.trainer_module.launch.data_workers import start_data_worker
from tests.trainer_module.sample_job import NUM_EXAMPLES, declared, write_examples

pytestmark = [pytest.mark.slow, pytest.mark.long]
tf = pytest.importorskip("tensorflow")


def ages(batches: Sequence[Any]) -> np.ndarray:
    """Returns the examples' only float, by which they are told apart."""
    return np.concatenate([batch["floats"].numpy()[:, 0] for batch in batches])


def test_what_a_lost_worker_has_taken_with_it_is_asked_for_again(tmp_path: Path) -> None:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.input.train_input import TrainInput, no_batches

    collectives.start()
    files = write_examples(tmp_path / "data")
    # Batches of 2, of which the worker holds many and its reader few: a kill in the middle must lose some.
    ranker = declared(data_workers=1, batch_size_per_rank=2, shuffle_buffer=100)
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker, port = start_data_worker(tmp_path / "first", address)
    job = small_job.job(tmp_path, ranker, files)
    source = TrainInput(
        job, files, rank=0, ranks=1, service=address, attempt="0", start=Position(), trained=no_batches()
    )
    seen, again = [], None
    for batch in source.batches(0, 0):
        seen.append(batch)
        source.stepped()
        if len(seen) == 40:
            worker.kill()
            worker.wait()
            again, _ = start_data_worker(tmp_path / "second", address, port)
    for _ in range(5):  # Empty batches, while other ranks still have some.
        source.stepped()
    assert len(ages(seen)) < NUM_EXAMPLES
    lost = source.lost_batches()
    assert lost is not None
    for batch in lost:
        seen.append(batch)
        source.stepped()
    assert again
    again.kill()
    again.wait()
    assert source.lost_batches() is None
    found = ages(seen)
    assert len(found) == len(np.unique(found)) == NUM_EXAMPLES
    assert len(np.unique(source.trained(), axis=0)) == len(seen)
