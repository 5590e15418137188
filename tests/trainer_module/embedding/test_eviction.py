"""Rows go by event time and by capacity, and nothing else goes."""

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

DAY = 24 * 60


def _evict(store: Any, *, now: int) -> None:
    from sangam.trainer_module.embedding.eviction import evict, finish

    finish(evict(store, now=now), lambda counts: counts)


def test_rows_expire_by_the_time_of_events_at_the_declared_day() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    store = RowStore(group(users=table(expire_after_days=2), posts=table()), seed=1)
    step = Steps(store)
    step(keys(1, 2, 3), minute=np.array([0, 1, 5 * DAY], np.int32))
    step(keys(7, tag=2), minute=0)
    _evict(store, now=2 * DAY)
    assert ids_of(store) == {2, 3, 7}
    _evict(store, now=2 * DAY + 1)
    assert ids_of(store) == {3, 7}
    assert store.counters["expired"].numpy().tolist() == [0, 2, 0]


def test_replaying_an_old_day_refreshes_nothing() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    store = RowStore(group(users=table(expire_after_days=2)), seed=1)
    step = Steps(store)
    step(keys(1, 2), minute=10 * DAY)
    step(keys(1), minute=3 * DAY)
    step(keys(3), minute=3 * DAY)
    _evict(store, now=10 * DAY)
    assert ids_of(store) == {1, 2}


def test_a_row_made_in_a_skipped_step_has_its_time() -> None:
    from sangam.trainer_module.embedding.bookkeeping import Observed
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import group, ids_of, keys, table

    store = RowStore(group(users=table(expire_after_days=2)), seed=1)
    observed = Observed(tf.constant([1], tf.int32), tf.constant([9 * DAY], tf.int32))
    store.find_or_make(tf.constant(keys(1)), observed, tf.constant(1, tf.int64))
    _evict(store, now=10 * DAY)
    assert ids_of(store) == {1}


@pytest.mark.parametrize(("order", "stay"), [("least_recent", {3, 4}), ("least_frequent", {1, 2})])
def test_over_capacity_the_declared_order_decides(order: str, stay: set[int]) -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    store = RowStore(group(users=table(capacity={"rows": 2, "evict": order}), posts=table()), seed=1)
    step = Steps(store)
    step(keys(1, 2, 3, 4), minute=np.array([1, 2, 3, 4], np.int32), occurrences=np.array([9, 8, 7, 6], np.int32))
    step(keys(20, 21, 22, tag=2), minute=0)
    _evict(store, now=4)
    assert ids_of(store) == stay | {20, 21, 22}
    assert store.counters["evicted"].numpy().tolist() == [0, 2, 0]


def _sorted_out(group, keys, seen, count, *, now):  # type: ignore[no-untyped-def]
    """Returns the places of the rows that go, by sorting every table's rows."""
    gone: set[int] = set()
    for name, table in group.tables.items():
        rows = [place for place in range(len(keys)) if keys[place] >> 52 == group.tags[name]]
        if table.expire_after_days is not None:
            old = {place for place in rows if now - int(seen[place]) >= table.expire_after_days * DAY}
            gone |= old
            rows = [place for place in rows if place not in old]
        if table.capacity is not None:
            by = (seen, count, keys) if table.capacity.evict == "least_recent" else (count, seen, keys)
            surplus = max(len(rows) - table.capacity.rows, 0)
            gone |= set(sorted(rows, key=lambda place: [int(column[place]) for column in by])[:surplus])
    return sorted(gone)


def _together(owners: list[Any]) -> list[Any]:
    """Runs an eviction on several owners of rows, whose counts must be of equal shapes; returns their results."""
    results, sums = [], None
    while not results:
        counts = []
        for owner in owners:
            try:
                counts.append(next(owner) if sums is None else owner.send(sums))
            except StopIteration as ended:
                results.append(ended.value)
        assert not (results and counts)
        sums = np.sum(np.stack(counts), axis=0) if counts else None
    assert len(results) == len(owners)
    return results


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_that_go_are_those_of_a_full_sort_whatever_the_ties_and_the_number_of_owners(seed: int) -> None:
    from sangam.trainer_module.embedding import eviction
    from tests.trainer_module.embedding.sample_tables import group, table

    generator = np.random.default_rng(seed)
    tables = group(
        frequent=table(capacity={"rows": 60, "evict": "least_frequent"}),
        plain=table(),
        recent=table(capacity={"rows": 40, "evict": "least_recent"}, expire_after_days=2),
        expiring=table(expire_after_days=1),
        roomy=table(capacity={"rows": 10_000}),
    )
    num_rows = int(generator.integers(0, 1000))
    keys = np.sort(generator.choice(2**40, num_rows, replace=False)) | (generator.integers(1, 6, num_rows) << 52)
    keys = generator.permutation(keys)
    # Few different values, those before 1970 and the largest included: nearly all rows are tied.
    minutes = [-(2**31), -5, 0, 3 * DAY - 1, 3 * DAY, 3 * DAY + 1, 3 * DAY + 16, 4 * DAY, 2**31 - 1]
    seen = generator.choice(np.array(minutes, np.int32), num_rows)
    count = generator.choice(np.array([0, 1, 2, 6, 7, 8, 518, 519, 2**31 - 1], np.int32), num_rows)

    def usage(own: Any, now: int) -> eviction.Usage:
        of_keys = np.concatenate([[0], keys[own], [0]])  # The row of no key, and room.
        books = np.pad(np.stack([seen[own], count[own]], 1), [(1, 1), (0, 0)])
        return eviction.Usage(tf.Variable(of_keys), tf.Variable(books), len(own) + 1, now)

    for now, owners in ((4 * DAY, 1), (5 * DAY, 2), (5 * DAY, 3)):
        # The last owner has most of the rows.
        places = np.split(np.arange(num_rows), [num_rows // (9 * (owners - owner)) for owner in range(owners - 1)])
        goings = _together([eviction.rows_to_go(tables, usage(own, now)) for own in places])
        expected = _sorted_out(tables, keys, seen, count, now=now)
        gone = [own[each.numbers - 1] for own, each in zip(places, goings, strict=True)]
        assert np.concatenate(gone).tolist() == expected
        expired, evicted = (sum(of_owners) for of_owners in zip(*(each[1:] for each in goings), strict=True))
        assert (expired + evicted).tolist() == np.bincount(keys[expected] >> 52, minlength=6).tolist()
        assert expired[[1, 2, 5]].tolist() == evicted[[2, 4, 5]].tolist() == [0, 0, 0]


def test_occurrences_add_up_over_steps() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    store = RowStore(group(users=table(capacity={"rows": 1, "evict": "least_frequent"})), seed=1)
    step = Steps(store)
    step(keys(1), occurrences=3)
    for _ in range(4):
        step(keys(2))
    _evict(store, now=0)
    assert ids_of(store) == {2}


def test_a_table_is_never_over_its_capacity_after_an_eviction_whatever_came() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    store = RowStore(group(users=table(capacity={"rows": 300})), seed=1)
    step, generator = Steps(store), np.random.default_rng(0)
    for minute in range(30):
        batch = np.unique(generator.integers(1, 2000, 250))
        step(keys(*batch), minute=minute)
        _evict(store, now=minute)
        assert store.num_rows <= 300
        assert set(batch.tolist()) <= ids_of(store)
        np.testing.assert_array_equal(
            store.find(tf.constant(store.contents()[0])).numpy(), np.arange(1, store.num_rows + 1)
        )


def test_rows_of_each_table_follow_from_counters_once_they_were_counted() -> None:
    from sangam.trainer_module.embedding.row_store import RowStore
    from sangam.trainer_module.embedding.statistics import TableCounts
    from tests.trainer_module.embedding.sample_tables import Steps, group, ids_of, keys, table

    store = RowStore(group(users=table(capacity={"rows": 3}, expire_after_days=9), posts=table()), seed=1)
    before = [(np.concatenate([keys(90, 91), keys(7, tag=2)]), np.zeros([3, store.group.width], np.float32))]
    store.fill(before, 3)  # Of a checkpoint: the counters know nothing of these.
    counts, step = TableCounts({"group": store}), Steps(store)
    step(keys(1, 2, 3, 4), minute=5 * DAY)
    step(keys(8, 9, tag=2), minute=5 * DAY)
    _evict(store, now=20 * DAY)
    step(keys(5), minute=20 * DAY)
    told = counts.read()
    assert ids_of(store) == {7, 8, 9, 5}
    assert (told["users"]["rows"], told["posts"]["rows"]) == (1, 3)
    assert (told["users"]["admitted"], told["users"]["expired"], told["posts"]["admitted"]) == (5, 6, 2)
    assert TableCounts({"group": store}).read() == told
