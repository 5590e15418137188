"""A dispatcher does without a worker that is lost for good."""

from pathlib import Path

import pytest

from sangam.trainer_module.input.service_calls import living, workers_of
from sangam.trainer_module.launch.lost_workers import LostWorkers
from tests.trainer_module.launch.data_workers import start_data_worker

pytestmark = [pytest.mark.processes, pytest.mark.long]
tf = pytest.importorskip("tensorflow")


def test_an_epoch_ends_without_a_lost_worker_once_another_answers(tmp_path: Path) -> None:
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    now = [0.0]
    lost_workers = LostWorkers(address, 10.0, clock=lambda: now[0])
    first, _ = start_data_worker(tmp_path / "first", address)
    lost_workers.look()
    epoch = tf.data.Dataset.range(100).flat_map(lambda part: tf.data.Dataset.from_tensors(part).repeat(10))
    distributed = service.distribute(service.ShardingPolicy.DYNAMIC, f"grpc://{address}", job_name="epoch")
    elements = iter(epoch.apply(distributed))
    seen = [int(next(elements)) for _ in range(20)]
    [worker] = workers_of(address)
    first.kill()
    first.wait()
    for now[0] in (1.0, 12.0):
        lost_workers.look()
    assert living([worker]) == set()
    second, _ = start_data_worker(tmp_path / "second", address)
    try:
        lost_workers.look()
        seen += [int(element) for element in elements]
    finally:
        second.kill()
        second.wait()
    # The second read whatever part the first had not begun: nothing was ended before there was a second.
    assert 20 < len(seen) < 1000
    assert 99 in seen
