"""Small libraries in C that stand before functions of the system, in a program and all processes it starts."""

import subprocess
import tempfile
from functools import cache
from pathlib import Path

_SCRATCH = tempfile.TemporaryDirectory(prefix="preloaded-")


@cache
def library(source: Path) -> str:
    """Compiles a library for `LD_PRELOAD`; returns its path."""
    made = str(Path(_SCRATCH.name) / f"{source.stem}.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", made, str(source), "-ldl"], check=True)
    return made
