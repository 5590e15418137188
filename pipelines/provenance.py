"""The version and commit of the code."""

import subprocess
from pathlib import Path

import sangam

VERSION = "0.2.0"
"""The version of Sangam; a test keeps it equal to pyproject.toml."""

COMMIT_FILE = "commit.txt"
"""File of the package, where it is not a checkout's: the commit of its code."""

_TIMEOUT_S = 20.0


def git_commit(folder: Path) -> str | None:
    """Returns the commit of the repository at `folder`, with the suffix `-dirty` for uncommitted changes.

    In an image, it is the commit of the image's code. None without git, or if the folder is not the top of a
    repository, such as that of an installed package.
    """
    try:
        if Path(_git(folder, "rev-parse", "--show-toplevel")).resolve() != folder.resolve():
            return _built_from(folder)
        commit = _git(folder, "rev-parse", "HEAD")
        return f"{commit}-dirty" if _git(folder, "status", "--porcelain") else commit
    except (OSError, subprocess.SubprocessError):
        return _built_from(folder)


def _built_from(folder: Path) -> str | None:
    try:
        return (folder / sangam.__name__ / COMMIT_FILE).read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def code_folder() -> Path:
    """Returns the folder that holds the package: the top of the repository in a checkout."""
    return Path(sangam.__file__).parents[1]


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout.strip()
