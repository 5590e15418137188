"""The committed model, loaded once."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # It imports TensorFlow.
    from sangam.components.model.model import Model


@pytest.fixture(scope="session")
def model() -> "Model":
    """The committed model."""
    from sangam.components.model.model import load
    from tests.components.model.committed import FOLDER

    return load(FOLDER)
