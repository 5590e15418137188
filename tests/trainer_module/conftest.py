"""What several tests of a served model share: one fabricated training, and its exports."""

import gc
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
def served_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that a training leaves for the export."""
    pytest.importorskip("tensorflow")
    from tests.trainer_module.serving.sample_training import make_world

    world = tmp_path_factory.mktemp("served_world")
    make_world(world)
    return world


@pytest.fixture(scope="session")
def exported(served_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], TrainJob]:
    """Returns the job of a finished export by form and rows; each is exported once, one of them as it is launched."""
    from sangam.trainer_module.export import export
    from tests.trainer_module.serving.sample_training import run_export, trained_job

    jobs: dict[tuple[str, str], TrainJob] = {}

    def of(form: str, rows: str) -> TrainJob:
        if (form, rows) not in jobs:
            job = trained_job(tmp_path_factory.mktemp(f"{form}_{rows}"), served_world, form=form, rows=rows)
            (run_export if (form, rows) == LAUNCHED else export)(job)
            jobs[form, rows] = job
        return jobs[form, rows]

    return of
