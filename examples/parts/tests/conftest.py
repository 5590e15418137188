"""An environment set before TensorFlow is imported anywhere, as Sangam's own processes have it."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves these tests out where slow ones are: their modules load TensorFlow."""
    return True if collection_path.suffix == ".py" and "not slow" in (config.option.markexpr or "") else None
