import os
from pathlib import Path

import pytest

from sangam.schemas.host.wildcards import without_wildcards


@pytest.mark.parametrize("name", ["exp [v1]", "what?", "all*", "back\\slash", "[only"])
def test_a_folder_with_wildcards_is_read_by_another_path_while_it_is_needed(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "variables").mkdir(parents=True)
    (tmp_path / name / "variables" / "variables.index").write_text("x")
    descriptors = len(os.listdir("/proc/self/fd"))
    with without_wildcards(str(tmp_path / name)) as path:
        assert not set(path) & set("[]*?\\")
        assert Path(path, "variables", "variables.index").read_text() == "x"
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("folder", ["/plain #1 100% é", "gs://bucket/a[1]"])
def test_other_folders_keep_their_path(folder: str) -> None:
    with without_wildcards(folder) as path:
        assert path == folder
