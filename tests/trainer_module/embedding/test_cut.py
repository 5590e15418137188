"""A cut: the rows of one moment, whatever training does to them until they are written."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

NUM_ROWS = 30_000


@pytest.fixture(scope="module", autouse=True)
def _alone() -> None:
    from sangam.trainer_module import collectives

    collectives.start()


def _read(held: Any, order: NDArray[Any] | None = None) -> tuple[bytes, bytes]:
    """Returns the bytes of all keys and rows."""
    indices = np.arange(held.num_rows) if order is None else order
    keys = held.take_keys(indices, np.zeros(held.num_rows, np.int64))
    rows = held.take_rows(indices, np.zeros([held.num_rows, held.width], np.float32))
    back = np.argsort(indices)
    return keys[back].tobytes(), rows[back].tobytes()


@pytest.mark.parametrize("kind", ["adagrad", "adam"])
def test_a_cut_has_the_rows_of_its_moment_after_updates_new_rows_evictions_and_growth(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.dense import fused
    from sangam.trainer_module.embedding import row_store
    from sangam.trainer_module.embedding.eviction import evict, finish
    from sangam.trainer_module.embedding.persistence import cut_of, snapshot_of
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    # Adam's rows change where they lie, those of Adagrad are written back.
    monkeypatch.setattr(fused, "is_possible", lambda: True)
    monkeypatch.setattr(row_store, "_RESERVED_BYTES", 1 << 16)
    users = table(optimizer={"kind": kind, "learning_rate": 0.1}, expire_after_days=1, capacity={"rows": NUM_ROWS // 2})
    store = row_store.RowStore(group(users=users), seed=3)
    step = Steps(store)
    ids, minutes = keys(*range(NUM_ROWS)), np.arange(NUM_ROWS, dtype=np.int32)
    step(ids, minute=minutes)
    before, held = snapshot_of(store), cut_of(store)
    assert held.num_kept == 0
    with pytest.raises(ValueError, match="one cut at a time"):
        cut_of(store)
    wanted, order = _read(before), np.random.default_rng(0).permutation(NUM_ROWS)

    step(ids[::3], gradients=2.0)
    step(ids[::3])
    assert (held.num_kept, _read(held, order)) == (NUM_ROWS // 3, wanted)
    finish(evict(store, now=NUM_ROWS), lambda counts: counts)
    assert store.num_rows < NUM_ROWS // 2
    assert _read(held, order) == wanted
    step(keys(*range(NUM_ROWS, NUM_ROWS + NUM_ROWS // 3)), minute=NUM_ROWS)  # Where evicted rows were.
    assert _read(held, order) == wanted
    room = len(store.keys.read_value())
    step(keys(*range(2 * NUM_ROWS, 5 * NUM_ROWS)), minute=NUM_ROWS)
    assert len(store.keys.read_value()) > room
    kept = held.num_kept
    step(ids, gradients=3.0)
    # The cut refers to the memory that the rows have left.
    assert (held.num_kept, _read(held, order)) == (kept, wanted)
    held.end()
    with pytest.raises(ValueError, match="has ended"):
        _read(held)
    step(ids)


def test_a_checkpoint_that_is_written_while_training_continues_is_that_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.checkpoint import blocks
    from sangam.trainer_module.checkpoint.rows import write_rows
    from sangam.trainer_module.embedding.eviction import evict, finish
    from sangam.trainer_module.embedding.persistence import cut_of, snapshot_of
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    monkeypatch.setattr(blocks, "_KEYS_AT_ONCE", 1 << 10)
    store = RowStore(group(users=table(capacity={"rows": NUM_ROWS})), seed=3)
    step, generator = Steps(store), np.random.default_rng(1)
    step(keys(*range(NUM_ROWS)), minute=generator.integers(0, 1_000, NUM_ROWS).astype(np.int32))
    for number in range(3):
        folders = [tmp_path / f"{number}-{which}" for which in ("stopped", "moving")]
        for folder in folders:
            folder.mkdir()
        files = [write_rows(folders[0], 0, "g", snapshot_of(store), block_rows=256)]
        held, steps = cut_of(store), 0
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write_rows, folders[1], 0, "g", held, block_rows=256)
            while not writing.done() or steps < 3:
                step(keys(*generator.choice(2 * NUM_ROWS, 2_000, replace=False)), minute=1_000 + steps)
                finish(evict(store, now=1_000), lambda counts: counts)
                steps += 1
            files.append(writing.result())
        assert files[0] == files[1]
        for name in files[0]:
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
        held.end()
