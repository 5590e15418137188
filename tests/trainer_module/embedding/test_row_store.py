"""Rows: how they start, that reading makes none, how they grow, go, are exported and restored."""

import numpy as np
import pytest

from sangam.schemas.errors import UserError
from tests.errors import place_and_value, tells

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module", autouse=True)
def _alone() -> None:
    from sangam.trainer_module import collectives

    collectives.start()


def test_a_store_grows_keeps_its_rows_and_never_inserts_on_reading() -> None:
    from sangam.trainer_module.embedding.hashing import initial_rows
    from sangam.trainer_module.embedding.row_store import INITIAL_SCALE, RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    store = RowStore(group(users=table()), seed=7)
    step = Steps(store)
    step(keys(*range(10)), gradients=0.0)
    made = step(keys(*range(5, 70_000)), gradients=0.0)
    np.testing.assert_array_equal(made, initial_rows(tf.constant(keys(*range(5, 70_000))), 4, INITIAL_SCALE, 7))
    assert store.find(tf.constant(keys(70_001, 3, 70_000))).numpy().tolist()[::2] == [0, 0]
    assert store.num_rows == 70_000
    stored_keys, rows = store.contents()
    np.testing.assert_array_equal(stored_keys, keys(*range(70_000)))
    np.testing.assert_array_equal(rows[:, 4:], np.full((70_000, 4), 0.5))


def test_an_absent_id_gets_no_row_and_reads_as_zeros_whatever_its_gradient() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    store = RowStore(group(users=table(default_value=0.25)), seed=7)
    step = Steps(store)
    absent = np.concatenate([[0], keys(5)]).astype(np.int64)
    for _ in range(2):
        np.testing.assert_array_equal(step(absent)[0], np.zeros(4))
    assert store.num_rows == 1


def test_unknown_ids_read_as_the_default_of_their_own_table() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import group, keys, table

    store = RowStore(group(users=table(default_value=0.25), posts=table()), seed=7)
    unknown = tf.constant(np.concatenate([keys(1), keys(1, tag=2), [0]]))
    numbers = store.find(unknown)
    read = store.embeddings(unknown, numbers, store.read(numbers)).numpy()
    np.testing.assert_array_equal(read, np.repeat([[0.25], [0.0], [0.0]], 4, axis=1))


def test_a_row_starts_the_same_whatever_the_order_and_the_batch() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    together, apart = (RowStore(group(users=table()), seed=3) for _ in range(2))
    all_at_once = Steps(together)(keys(1, 2, 3, 4))
    step = Steps(apart)
    np.testing.assert_array_equal(np.concatenate([step(keys(key)) for key in (4, 3, 2, 1)])[::-1], all_at_once)


def test_the_log_tells_what_was_touched_and_removed_since_the_last_export() -> None:
    from sangam.trainer_module.embedding.delta import take_delta
    from sangam.trainer_module.embedding.eviction import remove
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    store = RowStore(group(users=table()), seed=3, track_changes=True)
    step = Steps(store)
    step(keys(*range(1, 9)))
    assert sorted(take_delta(store).keys) == keys(*range(1, 9)).tolist()
    assert len(take_delta(store).keys) == 0

    step(keys(2, 5, 8))
    numbers = store.find(tf.constant(keys(1, 5))).numpy()
    remove(store, np.sort(numbers))
    step(keys(1, 9))  # One comes back, one is new.
    delta = take_delta(store)
    assert sorted(delta.keys) == keys(1, 2, 8, 9).tolist()
    assert delta.removed.tolist() == keys(5).tolist()
    rows = store.read(store.find(tf.constant(delta.keys))).numpy()
    np.testing.assert_array_equal(delta.embeddings, rows[:, :4])
    assert len(take_delta(store).removed) == 0


def test_changes_are_neither_written_nor_stored_where_nobody_takes_them() -> None:
    from sangam.trainer_module.embedding.delta import take_delta
    from sangam.trainer_module.embedding.eviction import remove
    from sangam.trainer_module.embedding.persistence import restore, snapshot_of
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    store = RowStore(group(users=table()), seed=3)
    Steps(store)(keys(*range(1, 9)))
    remove(store, np.array([1, 2]))
    assert (store.touched, store.removed) == (None, None)
    saved = snapshot_of(store)
    assert {name.split("_")[0] for name in saved.extra} == {"count"}
    with pytest.raises(ValueError, match=place_and_value("test_4", "not tracked")):
        take_delta(store)
    # Who begins to track does not know what has changed before.
    tracking = RowStore(group(users=table()), seed=3, track_changes=True)
    restore(tracking, saved, rank=0, ranks=1)
    assert [take_delta(tracking).needs_full_export for _ in range(2)] == [True, False]


def test_more_removed_keys_than_are_remembered_ask_for_a_full_export() -> None:
    from sangam.trainer_module.embedding.delta import take_delta
    from sangam.trainer_module.embedding.eviction import remove
    from sangam.trainer_module.embedding.persistence import restore, snapshot_of
    from sangam.trainer_module.embedding.removed_keys import RemovedKeys
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    store, other = (RowStore(group(users=table()), seed=3, track_changes=True) for _ in range(2))
    store.removed = RemovedKeys(most=4)
    step = Steps(store)
    for _ in range(3):  # The same four, again and again, are four.
        step(keys(*range(1, 9)))
        remove(store, np.sort(store.find(tf.constant(keys(1, 2, 3, 4))).numpy()))
    assert take_delta(store).removed.tolist() == keys(1, 2, 3, 4).tolist()
    step(keys(*range(1, 9)))
    remove(store, np.arange(1, 6))
    step(keys(10))
    restore(other, snapshot_of(store), rank=0, ranks=1)
    for full in (store, other):
        delta = take_delta(full)
        assert (delta.needs_full_export, len(delta.keys), len(delta.removed)) == (True, 0, 0)
        assert len(full.removed.keys()) == 0
    step(keys(11))
    delta = take_delta(store)
    assert (delta.needs_full_export, delta.keys.tolist()) == (False, keys(11).tolist())


def test_removed_rows_take_their_slots_along_and_leave_no_gap() -> None:
    from sangam.trainer_module.embedding.eviction import remove
    from sangam.trainer_module.embedding.hashing import initial_rows
    from sangam.trainer_module.embedding.row_store import INITIAL_SCALE, RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    store = RowStore(group(users=table()), seed=3)
    step = Steps(store)
    step(keys(*range(100)), gradients=np.arange(100.0)[:, None])
    before = dict(zip(*(part.tolist() for part in store.contents()), strict=True))
    gone = keys(0, 7, 50, 98, 99)
    remove(store, np.sort(store.find(tf.constant(gone)).numpy()))
    after_keys, after_rows = store.contents()
    assert len(after_keys) == 95
    assert set(after_keys.tolist()) == set(before) - set(gone.tolist())
    for key, row in zip(after_keys.tolist(), after_rows.tolist(), strict=True):
        assert row == before[key]
    np.testing.assert_array_equal(store.find(tf.constant(after_keys)).numpy(), np.arange(1, 96))
    again = step(gone, gradients=0.0)
    np.testing.assert_array_equal(again, initial_rows(tf.constant(gone), 4, INITIAL_SCALE, 3))
    accumulators = store.read(store.find(tf.constant(gone))).numpy()[:, 4:]
    np.testing.assert_array_equal(accumulators, np.full((5, 4), 0.5))


def test_a_filling_that_failed_leaves_nothing_behind_when_other_rows_come() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import group, keys, table

    store = RowStore(group(users=table()), seed=3)

    def blocks(*ids: int, fail: bool):  # type: ignore[no-untyped-def]
        for key in ids:
            yield keys(key), np.full([1, store.group.width], key, np.float32)
        if fail:
            raise OSError

    with pytest.raises(OSError, match=r"^$"):
        store.fill(blocks(1, 2, fail=True), 3)
    for ids in ((4, 5, 2), (6, 7)):  # Also in the place of whole ones.
        store.fill(blocks(*ids, fail=False), len(ids))
        assert store.find(tf.constant(keys(1, *ids))).numpy().tolist() == list(range(len(ids) + 1))
        assert store.contents()[1][:, 0].tolist() == list(ids)


def test_a_restored_store_is_equal_bit_by_bit_log_and_counters_included() -> None:
    from sangam.trainer_module.embedding.delta import take_delta
    from sangam.trainer_module.embedding.eviction import remove
    from sangam.trainer_module.embedding.persistence import restore, snapshot_of
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    declared = group(users=table(expire_after_days=3, admission={"kind": "count", "at_least": 2, "counters": 1024}))
    store, other = (RowStore(declared, seed=3, track_changes=True) for _ in range(2))
    step = Steps(store)
    step(keys(*range(50)), minute=1000, occurrences=2)
    take_delta(store)
    step(keys(3, 4, 200), minute=2000)
    remove(store, store.find(tf.constant(keys(9))).numpy())
    saved = snapshot_of(store)
    restore(other, saved, rank=0, ranks=1)
    for part, same in zip(other.contents(), store.contents(), strict=True):
        assert part.tobytes() == same.tobytes()
    assert {name: counter.numpy().tolist() for name, counter in other.counters.items()} == {
        name: counter.numpy().tolist() for name, counter in store.counters.items()
    }
    np.testing.assert_array_equal(Steps(other)(keys(200), minute=2000), step(keys(200), minute=2000))
    delta, expected = take_delta(other), take_delta(store)
    assert sorted(delta.keys) == sorted(expected.keys)
    assert delta.removed.tolist() == expected.removed.tolist() == keys(9).tolist()


def test_every_row_is_counted_by_its_norm() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from sangam.trainer_module.embedding.statistics import NORM_EDGES, statistics
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    store = RowStore(group(users=table()), seed=7)
    Steps(store)(keys(*range(300_000)), gradients=0.0)  # More than are counted at once.
    store.rows.scatter_update(tf.IndexedSlices(tf.fill([2, store.group.width], 1e6), [1, 2]))
    norms = statistics({"g": store}, rank=0, ranks=1)["users"]["norms"]
    rows = tf.gather(store.rows, tf.range(1, 300_001))[:, :4].numpy()
    inside = np.clip(np.linalg.norm(rows, axis=1), NORM_EDGES[0], NORM_EDGES[-1])
    np.testing.assert_array_equal(norms, np.histogram(inside, NORM_EDGES)[0])
    assert norms[-1] == 2


def test_a_store_grows_to_the_most_rows_of_a_process_and_says_that_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    from sangam.trainer_module.embedding import row_store
    from tests.trainer_module.embedding.sample_tables import Steps, group, keys, table

    monkeypatch.setattr(row_store, "MOST_ROWS", 20_000)
    monkeypatch.setattr(row_store, "_RESERVED_BYTES", 1 << 16)
    store = row_store.RowStore(group(users=table(), posts=table()), seed=3)
    step = Steps(store)
    for first in (1, 10_001):  # Twice the first room would be more.
        step(keys(*range(first, first + 10_000)))
    expected = "(got more than 20,000 of posts, users)"
    with pytest.raises(tf.errors.InvalidArgumentError) as failed:
        step(keys(1, 20_001))
    assert tells(row_store.full_store(failed.value) or "", "tables", expected)
    assert row_store.full_store(tf.errors.InvalidArgumentError(None, None, "another")) is None
    assert (store.num_rows, len(store.keys.read_value())) == (20_000, 20_001)
    with pytest.raises(UserError, match=place_and_value("tables", expected)):
        store.fill([], 20_001)
