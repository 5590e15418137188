"""What several tests of a served model share: one fabricated training, and its exports."""

import fcntl
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sangam.schemas.contracts.training_job import TrainJob
from tests.trainer_module.launch import warm

LAUNCHED = ("tfra", "int8")
"""The export that a process makes."""


@pytest.fixture(scope="module", autouse=True)
def _trainers_of_the_module() -> Iterator[None]:
    """Frees a module's trainers, each of which is in reference cycles and reserves up to a gigabyte.

    TensorFlow hands out no more than the machine's memory, and counts what is reserved and never touched.
    """
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    with warm.ended():
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, the same in all of its workers."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def _made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Has a folder made by the first worker that asks for it; the others wait, and read it."""
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # Of a worker that failed.
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def served_world(shared_folder: Path) -> Path:
    """All that a training leaves for the export."""
    pytest.importorskip("tensorflow")
    from tests.trainer_module.serving.sample_training import make_world

    return _made_once(shared_folder / "served_world", make_world)


@pytest.fixture(scope="session")
def exported(served_world: Path, shared_folder: Path) -> Callable[[str, str], TrainJob]:
    """Returns the job of a finished export by form and rows; each is exported once, one of them as it is launched."""
    from sangam.trainer_module.export import export
    from tests.trainer_module.serving.sample_training import declared, job_of, run_export, trained_job

    def of(form: str, rows: str) -> TrainJob:
        def make(folder: Path) -> None:
            job = trained_job(folder, served_world, form=form, rows=rows)
            (run_export if (form, rows) == LAUNCHED else export)(job)

        folder = _made_once(shared_folder / f"{form}_{rows}", make)
        return job_of(folder, served_world, declared(form=form, rows=rows))

    return of
