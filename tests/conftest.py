"""What every test needs: an environment set before TensorFlow is imported anywhere, and the paths of this checkout."""

import logging
import os
import re
import sys
from collections.abc import Iterator

from tests.object_stores import Bucket, new_bucket, served
from tests.paths import REPOSITORY

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# Horovod looks for work every millisecond by default, which takes a fifth of two cores.
os.environ.setdefault("HOROVOD_CYCLE_TIME", "10")

from pathlib import Path

import pytest

_MARKED = re.compile(r"^pytestmark = (.*)$", re.MULTILINE)
_IN_ORDER = ("e2e", "processes", "slow")
_LONG = {
    REPOSITORY / "tests" / path
    for path in (
        "components/caching/test_code_digest.py",
        "components/stream/test_topics.py",
        "trainer_module/loop/test_best_epoch.py",
        "trainer_module/loop/test_refit.py",
        "trainer_module/native/test_sanitizers.py",
        "trainer_module/serving/test_deltas.py",
        "trainer_module/serving/test_signatures.py",
        "trainer_module/test_every_kind.py",
        "trainer_module/test_export.py",
    )
}
"""Files of one process that take half a minute and more nevertheless: they go with those of several."""


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def demo_spec_path(repository: Path) -> Path:
    """The spec of the demo."""
    return repository / "pipelines" / "specs" / "short_video.yaml"


@pytest.fixture(scope="session")
def s3_variables() -> Iterator[dict[str, str]]:
    """The variables that lead to a running S3 server."""
    with served() as variables:
        yield variables


@pytest.fixture
def bucket(s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket, to which this process's variables lead."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in s3_variables.items():
        monkeypatch.setenv(name, value)
    return new_bucket(s3_variables)


@pytest.fixture(autouse=True)
def _without_tensorflow(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test of the inner loop in which TensorFlow is imported."""
    before = _loaded_in_the_inner_loop(request.config)
    yield
    if not before and (loaded := _loaded_in_the_inner_loop(request.config)):
        pytest.fail(f"imports {loaded}: give it the marker `slow`")


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Restores what a command that runs in this process has silenced."""
    yield
    logging.disable(logging.NOTSET)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of other tiers as a whole, so that nothing imports TensorFlow for them."""
    wanted = config.option.markexpr
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    if not wanted:
        return None
    text = collection_path.read_text(encoding="utf-8")
    if wanted == "long":
        return True if "pytest.mark.long" not in text else None
    of_file = " ".join(_MARKED.findall(text))
    left_out = re.findall(r"not (\w+)", wanted)
    return True if any(f"pytest.mark.{marker}" in of_file for marker in left_out) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuses files of the inner loop that import TensorFlow, which takes 8 s."""
    if loaded := _loaded_in_the_inner_loop(session.config):
        raise pytest.UsageError(f"a test without the marker `slow` imports {loaded}: mark its file")


def _loaded_in_the_inner_loop(config: pytest.Config) -> str:
    """Returns which of the slow libraries are loaded, "" where tests may load them."""
    return (
        ", ".join(sorted({"tensorflow", "apache_beam"} & sys.modules.keys()))
        if "not slow" in config.option.markexpr
        else ""
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files with the longest tests first, so that at the end no worker waits for the other's last file."""
    ranks: dict[Path, int] = {}
    for item in items:
        ranks[item.path] = min(_rank(item), ranks.get(item.path, len(_IN_ORDER)))
    items.sort(key=lambda item: ranks[item.path])


def _rank(item: pytest.Item) -> int:
    if item.path in _LONG:
        return _IN_ORDER.index("processes")
    return next((rank for rank, name in enumerate(_IN_ORDER) if item.get_closest_marker(name)), len(_IN_ORDER))
