import sys
from pathlib import Path

import pytest

from components.source_digest import source_digest


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "digested_package"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "part.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "digested_package", raising=False)
    return folder


def test_equal_sources_have_an_equal_digest(package: Path) -> None:
    before = source_digest("digested_package", "schemas")
    assert len(before) == 64
    assert source_digest("schemas", "digested_package") == before


def test_a_changed_source_file_changes_the_digest(package: Path) -> None:
    before = source_digest("digested_package")
    (package / "inner" / "part.py").write_text("x = 2\n")
    assert source_digest("digested_package") != before


def test_a_renamed_source_file_changes_the_digest(package: Path) -> None:
    before = source_digest("digested_package")
    (package / "inner" / "part.py").rename(package / "inner" / "other.py")
    assert source_digest("digested_package") != before


def test_files_that_are_no_source_do_not_count(package: Path) -> None:
    before = source_digest("digested_package")
    (package / "notes.txt").write_text("anything")
    assert source_digest("digested_package") == before


def test_a_single_module_has_a_digest() -> None:
    assert source_digest("schemas.days") != source_digest("schemas.data")


def test_an_unknown_package_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no such package"):
        source_digest("no_such_package_anywhere")
