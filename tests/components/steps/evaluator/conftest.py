"""What the tests that evaluate models share: examples, and the module that makes models for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.components.examples import sample_files


@pytest.fixture(scope="session")
def world() -> Any:
    from tests.components.steps.evaluator import sample_evaluation as evaluation_world

    return evaluation_world


@pytest.fixture(scope="session")
def columns(world: Any) -> dict[str, np.ndarray]:
    return world.rows()


@pytest.fixture(scope="session")
def examples(world: Any, columns: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    uri = tmp_path_factory.mktemp("examples")
    sample_files.write_eval_split(uri, columns)
    return uri
