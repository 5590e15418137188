"""What every test needs: an environment set before TensorFlow is imported anywhere, and the paths of this checkout."""

import os
import re

from tests.paths import REPOSITORY

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Horovod looks for work every millisecond by default, which takes a fifth of two cores.
os.environ.setdefault("HOROVOD_CYCLE_TIME", "10")

from pathlib import Path

import pytest

_IS_SLOW = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def demo_spec_path(repository: Path) -> Path:
    """The spec of the demo."""
    return repository / "pipelines" / "specs" / "short_video.yaml"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files that are slow as a whole where slow tests are, so that nothing imports TensorFlow for them."""
    if "not slow" in config.option.markexpr and collection_path.suffix == ".py":
        return True if _IS_SLOW.search(collection_path.read_text(encoding="utf-8")) else None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files with the longest tests first, so that at the end no worker waits for the other's last file."""
    ranks: dict[Path, int] = {}
    for item in items:
        rank = next((rank for rank, name in enumerate(("e2e", "slow")) if item.get_closest_marker(name)), 2)
        ranks[item.path] = min(rank, ranks.get(item.path, 2))
    items.sort(key=lambda item: ranks[item.path])
