"""Tells which connections beyond this machine Python processes ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def told(file: Path) -> Iterator[None]:
    """Has all processes that are started meanwhile, and theirs, write into `file` whom they ask for.

    It sees what Python's own sockets do, not those of native code.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANGAM_TEST_OUTSIDE", str(file))
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
        yield
