"""Epochs that the pool has begun before the first batch was asked for."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.trainer_module.input.position import Position
from tests.trainer_module import sample_job as small_job
from tests.trainer_module.sample_job import NUM_EXAMPLES, declared, write_examples

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


@pytest.mark.long
def test_an_epoch_begun_early_is_whole_and_one_begun_in_vain_is_in_no_other(tmp_path: Path) -> None:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.input.train_input import TrainInput, no_batches

    collectives.start()
    (tmp_path / "many").mkdir()
    files, many_files = write_examples(tmp_path), write_examples(tmp_path / "many", num_files=13)
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    workers = [service.WorkerServer(service.WorkerConfig(dispatcher_address=address)) for _ in range(2)]
    ranker = declared(data_workers=2, batch_size_per_rank=16, shuffle_buffer=100)
    job = small_job.job(tmp_path, ranker, files)
    source = TrainInput(
        job, files, rank=0, ranks=1, service=address, attempt="0", start=Position(), trained=no_batches()
    )
    seen: list[list[np.ndarray[Any, Any]]] = [[], [], []]
    for epoch in (0, 1, 2):
        if epoch == 2:
            source = source.then(many_files, epoch)
        for batch in source.batches(epoch, 0):
            seen[epoch].append(batch["floats"].numpy()[:, 0])
            source.stepped()
            source.begin(epoch + 1)
        assert source.lost_batches() is None
    first, second, then = map(np.concatenate, seen)
    assert not np.array_equal(first, second)
    for ages in (first, second, then):
        assert len(ages) == len(np.unique(ages)) == NUM_EXAMPLES
    del source, batch
    gc.collect()  # A client of a dispatcher that has ended would call it ten times a second.
    del workers, dispatcher
