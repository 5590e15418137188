"""Stores that reserve little: many of them live in one process."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_RESERVED_BYTES = 1 << 20


@contextmanager
def little_reserved(request: pytest.FixtureRequest) -> Iterator[None]:
    """TensorFlow hands out no more than the machine's memory, and counts what is reserved and never touched."""
    if getattr(request.module, "pytestmark", None) is None:
        yield  # A test of plain Python, which does not wait for TensorFlow.
        return
    from sangam.trainer_module.embedding import row_store

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_store, "_RESERVED_BYTES", _RESERVED_BYTES)
        yield
    gc.collect()
