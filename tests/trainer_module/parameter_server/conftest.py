"""Stores of servers that reserve little: many of them live in one process."""

import gc
from collections.abc import Iterator

import pytest

_RESERVED_BYTES = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def _stores_that_reserve_little(request: pytest.FixtureRequest) -> Iterator[None]:
    """TensorFlow hands out no more than the machine's memory, and counts what is reserved and never touched."""
    if getattr(request.module, "pytestmark", None) is None:
        yield  # A test of plain Python, which does not wait for TensorFlow.
        return
    from trainer_module.embedding import row_store

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_store, "_RESERVED_BYTES", _RESERVED_BYTES)
        yield
    gc.collect()
