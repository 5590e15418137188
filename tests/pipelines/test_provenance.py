"""Which code ran."""

import subprocess
from pathlib import Path

import pytest

from sangam.pipelines.provenance import COMMIT_FILE, git_commit

IDENTITY = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    (tmp_path / "code.py").write_text("one\n")
    git("init")
    git("add", "code.py")
    git(*IDENTITY, "commit", "-m", "one", "--no-verify")
    return tmp_path


def test_a_clean_checkout_is_its_commit(clean: Path) -> None:
    commit = git_commit(clean)
    assert commit
    assert len(commit) == 40


def test_a_changed_or_new_file_makes_it_dirty(clean: Path) -> None:
    commit = git_commit(clean)
    (clean / "new.py").write_text("")
    assert git_commit(clean) == f"{commit}-dirty"
    (clean / "new.py").unlink()
    (clean / "code.py").write_text("two\n")
    assert git_commit(clean) == f"{commit}-dirty"


def test_a_folder_inside_anothers_repository_has_no_commit(clean: Path) -> None:
    (clean / "inside").mkdir()
    assert git_commit(clean / "inside") is None


def test_without_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path) is None


def test_without_git_there_is_no_commit(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert git_commit(clean) is None


@pytest.mark.parametrize(("text", "commit"), [("abc\n", "abc"), ("\n", None)])
def test_an_image_knows_the_commit_that_it_was_built_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, commit: str | None
) -> None:
    (tmp_path / "sangam").mkdir()
    (tmp_path / "sangam" / COMMIT_FILE).write_text(text)
    assert git_commit(tmp_path) == commit
    monkeypatch.setenv("PATH", "")
    assert git_commit(tmp_path) == commit


def test_a_repository_is_believed_more_than_a_file_in_it(clean: Path) -> None:
    commit = git_commit(clean)
    (clean / "sangam").mkdir()
    (clean / "sangam" / COMMIT_FILE).write_text("abc\n")
    assert git_commit(clean) == f"{commit}-dirty"
