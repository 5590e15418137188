"""A stand-in for a mounted object store: below a folder, processes can neither rename folders nor link files.

The system's own functions refuse, so TensorFlow's C++ and all child processes meet the same.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def environment(scratch: Path, store: Path) -> dict[str, str]:
    """Returns what to add to the environment of a process to which a folder is such a store.

    Args:
        scratch: a folder for the library.
        store: the folder; all of its paths are given as absolute ones.
    """
    library = scratch / "mounted_store.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "MOUNTED_STORE": str(store)}


def run(program: str, added: Mapping[str, str], *arguments: str) -> str:
    """Runs a Python program under such an environment; returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env={**os.environ, **added}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
