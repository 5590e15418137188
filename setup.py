"""Puts the commit into the package: `sangam version` and each run's record name it."""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class BuildWithCommit(build_py):
    """Writes commit.txt, unless there is no repository, or this is an editable install."""

    def run(self) -> None:
        """Builds the package."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # Files of an earlier build would be in the wheel.
        super().run()
        if self.editable_mode:
            return
        try:
            commit = _git("rev-parse", "HEAD") + ("-dirty" if _git("status", "--porcelain") else "")
        except (OSError, subprocess.SubprocessError):
            return
        Path(self.build_lib, "sangam", "commit.txt").write_text(commit + "\n", encoding="utf-8")


setup(cmdclass={"build_py": BuildWithCommit})
