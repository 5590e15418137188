"""A stand-in for a mounted object store: below a folder, processes can neither rename folders nor link files.

The system's own functions refuse, so TensorFlow's C++ and all child processes meet the same.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.fakes.preloaded import library


def preloaded() -> str:
    """Returns the library that makes it so, once the environment names the folder."""
    return library(Path(__file__).with_suffix(".c"))


def environment(store: Path) -> dict[str, str]:
    """Returns the environment of a process to which a folder, given as an absolute path, is such a store."""
    return {**os.environ, "LD_PRELOAD": preloaded(), "SANGAM_TEST_STORE": str(store)}


def run(program: str, store: Path, *arguments: str) -> None:
    """Runs a Python program to which a folder is such a store."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment(store), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
