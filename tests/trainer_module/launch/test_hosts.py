"""Real ranks on two hosts, each in a network of its own: they learn what one process learns, whatever is lost."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.trainer_module.launch.cluster_job import STAND_INS, ClusterJob, Place, free_port, processes_of
from tests.trainer_module.launch.launched_job import last_step, wait_for_step
from tests.trainer_module.launch.networks import NoNetworksError, two_networks
from tests.trainer_module.launch.warm import Process
from tests.trainer_module.parameter_server.sample_servers import made_job, train_alone
from tests.trainer_module.sample_job import declared, read_dense, read_rows, write_examples, write_job
from tests.trainer_module.trained_examples import EVERY_STEPS, assert_trained_on_each_example_once_an_epoch, counting

pytestmark = pytest.mark.processes

TOLERANCE = 1e-5
_PROGRAMS = {"coordinator": (STAND_INS, "coordinator"), "host": ("sangam.trainer_module.launch.host",)}
"""The export is a stand-in: there is no graph of Transform."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def places() -> Iterator[list[Place]]:
    try:
        with two_networks() as made:
            yield made
    except NoNetworksError as error:
        pytest.skip(f"needs the right to make network namespaces: {error}")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, files: tuple[str, ...]) -> Path:
    """What one rank learns with the batches of both."""
    folder = tmp_path_factory.mktemp("alone")
    train_alone(made_job(folder, declared(batch_size_per_rank=64), files))
    return folder


@pytest.mark.parametrize("transport", ["auto", pytest.param("horovod", marks=pytest.mark.long)])
def test_two_hosts_learn_what_one_rank_with_twice_the_batch_learns(
    tmp_path: Path, files: tuple[str, ...], places: list[Place], alone: Path, transport: str
) -> None:
    """As two local ranks do: `test_rank_equivalence`."""
    halves = declared(ranks=2, batch_size_per_rank=32, sync={"kind": "sync", "transport": transport})
    with ClusterJob(write_job(tmp_path, halves, files), hosts=2, places=places, **_PROGRAMS) as job:
        processes = [job.coordinator(), job.host(0), job.host(1)]
        assert [process.wait(90) for process in processes] == [0, 0, 0], job.log()
        assert processes_of(job.job_file) == []
        assert "[rank-1] " in job.log("host-1")
    _assert_equal(tmp_path, alone)


@pytest.mark.long
def test_two_hosts_and_two_servers_learn_the_same_without_staleness(
    tmp_path: Path, files: tuple[str, ...], places: list[Place], alone: Path
) -> None:
    """Each server on a host of its own, in either network."""
    served = declared(ranks=2, batch_size_per_rank=32, parameter_servers=2, sync={"kind": "stale", "staleness": 0})
    with ClusterJob(write_job(tmp_path, served, files), hosts=2, servers=2, places=places * 2, **_PROGRAMS) as job:
        processes = [job.coordinator(), *(job.host(index) for index in range(4))]
        assert [process.wait(90) for process in processes] == [0] * 5, job.log()
        assert processes_of(job.job_file) == []
        assert "[parameter-server-1] " in job.log("host-3")
        for address in (place.address for place in places):
            logs = (tmp_path / "logs").glob("parameter-server-?.log")
            assert any(f"address={address}:" in file.read_text() for file in logs)
    _assert_equal(tmp_path, alone)


def _assert_equal(directory: Path, alone: Path) -> None:
    losses, expected_losses = (np.load(folder / "output" / "losses.npy") for folder in (directory, alone))
    np.testing.assert_allclose(losses, expected_losses, atol=TOLERANCE, rtol=TOLERANCE)
    for group in ("adagrad_4", "adagrad_8"):
        for ours, expected in zip(
            read_rows(directory / "final", group), read_rows(alone / "final", group), strict=True
        ):
            np.testing.assert_allclose(ours, expected, atol=TOLERANCE, rtol=TOLERANCE)
    for vector, expected in read_dense(alone / "final").items():
        np.testing.assert_allclose(
            read_dense(directory / "final")[vector], expected, atol=TOLERANCE, rtol=TOLERANCE, err_msg=vector
        )


@pytest.mark.long
def test_every_example_is_seen_once_an_epoch_though_a_host_and_the_dispatcher_are_lost_on_the_way(
    tmp_path: Path, files: tuple[str, ...], places: list[Place]
) -> None:
    job_file = write_job(tmp_path, counting(data_workers=1), files)
    here, other = places
    service, worker_address = f"{here.address}:{free_port()}", f"{other.address}:{free_port()}"
    with ClusterJob(job_file, hosts=2, places=places, service=service, **_PROGRAMS) as job:

        def serve(role: str) -> Process:
            module, journal = "sangam.trainer_module.launch.data_service", str(tmp_path / "journal")
            port = service.split(":")[1]
            if role == "dispatcher":
                return job.start(here, role, module, role, "--port", port, "--work-dir", journal)
            port = worker_address.split(":")[1]
            return job.start(
                other, role, module, role, "--dispatcher", service, "--port", port, "--advertise", worker_address
            )

        dispatcher, worker = serve("dispatcher"), serve("worker")
        coordinator, hosts = job.coordinator(), [job.host(0), job.host(1)]
        wait_for_step(job_file, 2 * EVERY_STEPS)
        hosts[1].kill()
        hosts[1].wait()
        first = last_step(job_file)
        hosts[1] = job.host(1)
        wait_for_step(job_file, first + 2 * EVERY_STEPS)
        dispatcher.kill()
        dispatcher.wait()
        dispatcher = serve("dispatcher")
        assert [process.wait(120) for process in (coordinator, *hosts)] == [0, 0, 0], job.log()
        assert_trained_on_each_example_once_an_epoch(tmp_path, files)
        for process in (dispatcher, worker):
            process.terminate()
            assert process.wait(60) == 143
