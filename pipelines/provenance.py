"""Which code ran."""

import subprocess
from pathlib import Path

VERSION = "0.1.0"
"""Of Sangam; pyproject.toml says the same, which a test holds."""

_TIMEOUT_S = 20.0


def git_commit(folder: Path) -> str | None:
    """Returns the commit of the repository whose top is `folder`, with `-dirty` after uncommitted changes.

    None without git, or where the folder is not the top of a repository (installed code inside another project's).
    """
    try:
        if Path(_git(folder, "rev-parse", "--show-toplevel")).resolve() != folder.resolve():
            return None
        commit = _git(folder, "rev-parse", "HEAD")
        return f"{commit}-dirty" if _git(folder, "status", "--porcelain") else commit
    except (OSError, subprocess.SubprocessError):
        return None


def code_folder() -> Path:
    """Returns the folder that holds the packages: the top of the repository in a checkout."""
    return Path(__file__).resolve().parent.parent


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S).stdout.strip()
