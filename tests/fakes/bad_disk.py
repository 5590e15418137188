"""A stand-in for a disk that is full or slow for a while: what processes write below a folder."""

import os
from pathlib import Path
from typing import Literal

from tests.fakes.preloaded import library

Fault = Literal["full", "slow"]


def preloaded() -> str:
    """Returns the library that makes it so, once the environment names the folder."""
    return library(Path(__file__).with_suffix(".c"))


def environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a process to which a folder, given as an absolute path, is on such a disk."""
    return {**os.environ, "LD_PRELOAD": preloaded(), "SANGAM_TEST_BAD_DISK": str(folder)}


def begin(folder: Path, fault: Fault) -> None:
    """Lets every write below a folder fail for want of space, or take 0.1 s."""
    _file(folder, fault).touch()


def end(folder: Path, fault: Fault) -> None:
    """Makes the disk good again."""
    _file(folder, fault).unlink()


def _file(folder: Path, fault: Fault) -> Path:
    return folder.with_name(f"{folder.name}.{fault}")
