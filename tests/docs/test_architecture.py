"""docs/architecture.md names files and folders that are there."""

import re

from tests.paths import REPOSITORY

_PATH = re.compile(r"`((?:schemas|components|trainer_module|pipelines|tests)/[\w/]+(?:\.py)?)/?`")


def test_every_path_in_it_exists() -> None:
    paths = _PATH.findall((REPOSITORY / "docs" / "architecture.md").read_text())
    assert len(paths) > 30
    assert not [path for path in paths if not (REPOSITORY / path).exists()]
