"""Trainings at a standing input service: whatever of it is lost, they train on every example once, or end soon."""

import time
from pathlib import Path

import pytest

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.cluster import InputService
from sangam.trainer_module.launch.loopback import open_ports
from tests.errors import tells
from tests.trainer_module.launch.launched_job import failure, group_of, last_step, launch, wait_for_step
from tests.trainer_module.launch.standing_service import StandingService
from tests.trainer_module.sample_job import write_examples, write_job
from tests.trainer_module.trained_examples import EVERY_STEPS, assert_trained_on_each_example_once_an_epoch, counting

pytestmark = [pytest.mark.processes, pytest.mark.long]

_EPOCHS = 3
_TIMEOUT_S = 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


def _joining(address: str, *, timeout_s: int = 60, epochs: int = _EPOCHS) -> RankerSpec:
    # Small batches: a worker holds several when it is killed.
    ranker = counting(ranks=1, data_workers=2, retries=0, batch_size_per_rank=4, epochs=epochs)
    joined = {"input_service": InputService(address=address, timeout_s=timeout_s)}
    return ranker.model_copy(update={"cluster": ranker.cluster.model_copy(update=joined)})


def test_trainings_at_one_service_lose_no_example_and_see_none_twice_whatever_of_it_is_killed(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    with StandingService(tmp_path / "service") as service:
        dispatcher, lost = service.dispatcher(is_cold=True), service.worker(is_cold=True)
        service.wait_until_serving()
        assert open_ports(service.pids()) == []
        # Of the same attempts, epochs and parts.
        jobs = [
            write_job(tmp_path / name, _joining(service.address), files, is_exported=False) for name in ("one", "other")
        ]
        launched = [launch(job) for job in jobs]
        for job in jobs:
            wait_for_step(job, EVERY_STEPS)
        lost.kill()
        lost.wait()
        joined = service.worker()
        service.wait_until_serving()
        wait_for_step(jobs[0], last_step(jobs[0]) + 4 * EVERY_STEPS)
        dispatcher.kill()
        dispatcher.wait()
        dispatcher = service.dispatcher()
        for job, process in zip(jobs, launched, strict=True):
            assert process.wait(240) == ExitCode.DONE, (job.parent / "launch.log").read_text()[-4000:]
            assert_trained_on_each_example_once_an_epoch(job.parent, files, _EPOCHS)
            assert group_of(process.pid) == []
        logs = [(job.parent / "logs" / "rank-0.log").read_text() for job in jobs]
        assert any("reading parts=" in log for log in logs)
        for left in (dispatcher, joined):
            left.terminate()
            assert left.wait(60) == ExitCode.TERMINATED


def test_a_training_whose_service_is_gone_ends_within_the_declared_time(tmp_path: Path, files: tuple[str, ...]) -> None:
    with StandingService(tmp_path / "service") as service:
        service.dispatcher()
        worker = service.worker()
        service.wait_until_serving()
        job_file = write_job(tmp_path, _joining(service.address, timeout_s=_TIMEOUT_S, epochs=100_000), files)
        launched = launch(job_file)
        wait_for_step(job_file, EVERY_STEPS)
        started = time.monotonic()
        worker.kill()
        assert launched.wait(_TIMEOUT_S + 60) == ExitCode.MISTAKE
        assert time.monotonic() - started >= _TIMEOUT_S
        told = failure(job_file)
        assert tells(told, "cluster.input_service", f"(got {service.address}: none of its workers")
        assert group_of(launched.pid) == []
        service.kill()
        launched = launch(job_file)
        assert launched.wait(60) == ExitCode.MISTAKE
        assert tells(failure(job_file), "cluster.input_service", f"(got {service.address}: the dispatcher")
        assert group_of(launched.pid) == []
