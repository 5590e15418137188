"""Models that are made once, and a server that many tests ask."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # It imports TensorFlow, as the client does.
    from tests.components.server.server_process import Running


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """SavedModels by the number that is in their scores."""
    from tests.components.server.sample_models import SmallRanker

    folder = tmp_path_factory.mktemp("models")
    for number in (1, 2, 3):
        SmallRanker(float(number)).save(folder / str(number))
    return {number: folder / str(number) for number in (1, 2, 3)}


@pytest.fixture(scope="module")
def server(models: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator["Running"]:
    """A server of one SavedModel, with the limits it has by default.

    For one module: a run that is stopped within this process, as other modules' tests do, ends all processes below it.
    """
    from tests.components.server.server_process import running

    with running(models[1], tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder for logs and addresses."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder
