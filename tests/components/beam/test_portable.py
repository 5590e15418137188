"""Jobs on a job service with worker pools, each a process of its own: what fails, fails readably and in time."""

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sangam.components.beam.job import EngineError
from sangam.components.beam.reasons import OTHER_VERSION, POOL_IS_GONE, POOL_LACKS_CODE
from sangam.pipelines.beam import engine_args
from sangam.schemas.spec.beam import Portable
from tests.components.beam.sample_steps import OurCode, Sleeping, executor
from tests.engines.servers import BARE_POOL, Server, free_port, job_service, worker_pool
from tests.errors import place_and_value
from tests.paths import REPOSITORY

pytestmark = [pytest.mark.processes, pytest.mark.long]

STEP = """
import sys
from sangam.components.processes.stopping import Stopped, StopSignals
from tests.components.beam.sample_steps import Sleeping, executor
with StopSignals() as stop:
    try:
        with stop.raised():
            executor(sys.argv[1:], Sleeping).Do({}, {}, {"seconds": 600})
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Server]:
    """One for each test: prism ends with the first job whose pool it does not reach."""
    with job_service(tmp_path) as server:
        yield server


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with worker_pool(tmp_path_factory.mktemp("pool")) as server:
        yield server


def args(service: Server, pool: str, timeout_s: int = 60) -> tuple[str, ...]:
    return engine_args(Portable(runner="portable", job_endpoint=service.address, worker_pool=pool, timeout_s=timeout_s))


def workers_of(pool: Server) -> list[psutil.Process]:
    return psutil.Process(pool.process.pid).children()


def wait_for_worker(pool: Server) -> psutil.Process:
    deadline = time.monotonic() + 60
    while not (found := workers_of(pool)):
        assert time.monotonic() < deadline, pool.log.read_text()
        time.sleep(0.1)
    return found[0]


def wait_for_no_worker(pool: Server) -> None:
    deadline = time.monotonic() + 60
    while workers_of(pool):
        assert time.monotonic() < deadline, pool.log.read_text()
        time.sleep(0.1)


def test_a_pool_of_ours_runs_our_code(service: Server, pool: Server) -> None:
    executor(args(service, pool.address), OurCode).Do({}, {}, {})
    # It reaps: no worker stays as a zombie.
    wait_for_no_worker(pool)
    assert workers_of(pool) == []


def test_a_pool_without_our_code_is_named(service: Server, tmp_path: Path) -> None:
    with (
        worker_pool(tmp_path, ("-c", BARE_POOL), code=tmp_path) as bare,
        pytest.raises(EngineError, match=place_and_value("beam", f"(got ModuleNotFoundError ... {POOL_LACKS_CODE}")),
    ):
        executor(args(service, bare.address), OurCode).Do({}, {}, {})


def test_a_pool_with_another_version_of_our_code_is_named(service: Server, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "sangam", tmp_path / "sangam", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "sangam" / "schemas" / "quantities.py").open("a").write("\n# Another version.\n")
    with (
        worker_pool(tmp_path, code=tmp_path) as other,
        pytest.raises(EngineError, match=place_and_value("beam", f"{OTHER_VERSION} (got ... restart it")),
    ):
        executor(args(service, other.address), OurCode).Do({}, {}, {})


def test_a_pool_that_is_not_there_fails_in_time(service: Server) -> None:
    began = time.monotonic()
    with pytest.raises(EngineError, match=place_and_value("beam", POOL_IS_GONE)):
        executor(args(service, f"localhost:{free_port()}", timeout_s=10), OurCode).Do({}, {}, {})
    assert time.monotonic() - began < 120


def test_a_pool_that_dies_fails_the_job_in_time(service: Server, tmp_path: Path) -> None:
    began = time.monotonic()
    with worker_pool(tmp_path) as dying:

        def kill() -> None:
            worker = wait_for_worker(dying)
            time.sleep(4)
            dying.process.kill()
            worker.kill()

        threading.Thread(target=kill, daemon=True).start()
        with pytest.raises(EngineError, match="worker pool"):
            executor(args(service, dying.address, timeout_s=20), Sleeping).Do({}, {}, {"seconds": 600})
    assert time.monotonic() - began < 120  # The step would sleep for 600.


def test_a_pool_that_ends_leaves_no_worker(service: Server, tmp_path: Path) -> None:
    with worker_pool(tmp_path) as ending:
        workers: list[psutil.Process] = []

        def end() -> None:
            workers.append(wait_for_worker(ending))
            time.sleep(4)
            ending.process.terminate()

        threading.Thread(target=end, daemon=True).start()
        with pytest.raises(EngineError, match="worker pool"):
            executor(args(service, ending.address, timeout_s=20), Sleeping).Do({}, {}, {"seconds": 600})
        assert ending.process.wait(60) == 143
    assert not workers[0].is_running()


def test_a_step_that_is_stopped_cancels_its_job_and_its_worker_ends(service: Server, pool: Server) -> None:
    step = subprocess.Popen([sys.executable, "-c", STEP, *args(service, pool.address)], cwd=REPOSITORY)
    try:
        wait_for_worker(pool)
        time.sleep(5)
        step.send_signal(signal.SIGTERM)
        assert step.wait(30) == 143
        wait_for_no_worker(pool)
    finally:
        step.kill()
