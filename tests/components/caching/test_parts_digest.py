"""The digest of parts follows their modules and what those import that is theirs."""

import sys
from pathlib import Path

import pytest

from sangam.components.caching.code_digest import code_digest
from sangam.components.caching.parts_digest import parts_digest
from sangam.schemas.parts.importing import FOLDERS, import_part, look_beside


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has a package of two modules, and a module beside it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(FOLDERS, "")
    package = tmp_path / "digested"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "ranking.py").write_text("import math\nfrom digested import layers\nimport digested_beside\n")
    (package / "layers.py").write_text("x = 1\n")
    (package / "unused.py").write_text("x = 1\n")
    (tmp_path / "digested_beside.py").write_text("x = 1\n")
    for name in [name for name in sys.modules if name.startswith("digested")]:
        monkeypatch.delitem(sys.modules, name)
    look_beside(tmp_path / "spec.yaml")
    import_part("digested.ranking")
    return tmp_path


def test_only_code_that_is_imported_counts(team: Path) -> None:
    before = parts_digest(["digested.ranking"])
    (team / "digested" / "unused.py").write_text("x = 2\n")
    assert parts_digest(["digested.ranking"]) == before
    seen = {before}
    for file in ("digested/layers.py", "digested/ranking.py", "digested_beside.py"):
        (team / file).write_text((team / file).read_text() + "# changed\n")
        seen.add(parts_digest(["digested.ranking"]))
    assert len(seen) == 4


def test_it_counts_in_the_key_of_a_step_and_is_nothing_without_parts(team: Path) -> None:
    del team
    module = "sangam.components.steps.schema_gen.executor"
    assert parts_digest(()) == ""
    assert code_digest(module, parts=["digested.ranking"]) != code_digest(module) == code_digest(module, parts=())
