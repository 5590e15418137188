"""What every test needs: an environment set before TensorFlow is imported anywhere, and the paths of this checkout."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return _ROOT


@pytest.fixture(scope="session")
def demo_spec_path(repository: Path) -> Path:
    """The spec of the demo."""
    return repository / "pipelines" / "specs" / "short_video.yaml"
