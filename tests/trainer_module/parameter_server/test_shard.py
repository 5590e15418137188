"""What a server does with calls that are repeated, late, out of order, wrong, or of several ranks at once."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from sangam.trainer_module.parameter_server.wire import Caller, MessageError
from tests.trainer_module.parameter_server.sample_shards import (
    ASYNC,
    EVERY_MODE,
    RATE,
    STALE,
    Calls,
    initial_dense,
    keys_of,
    ones,
    spec_of,
)

pytestmark = pytest.mark.slow


def _applied(answer: Any) -> bool:
    return bool(answer.outcome.name == "APPLIED")


def _refused(answer: Any) -> bool:
    return bool(answer.outcome.name == "REFUSED")


def test_a_push_repeated_in_any_order_counts_once() -> None:
    """Two ranks in step send each call 1 to 3 times, late copies among the calls that follow."""
    spec = spec_of(STALE, ranks=2, embedding_optimizer={"kind": "adagrad", "learning_rate": 0.1})
    expected = _train(Calls(spec), 12, random.Random(0), copies=1)
    assert len(expected) > 20
    for seed in range(4):
        assert _train(Calls(spec), 12, random.Random(seed), copies=3) == expected


def _train(calls: Calls, batches: int, draw: random.Random, *, copies: int) -> dict[int, bytes]:
    late: list[tuple[int, int, Any]] = []
    for number in range(batches):
        gradients = {}
        ranks = [0, 1]
        draw.shuffle(ranks)
        for rank in ranks:
            ids = keys_of(calls.spec, "users", *(1 + (7 * number + 3 * each + 5 * rank) % 30 for each in range(8)))
            for _ in range(draw.randint(1, copies)):
                pulled = calls.pull(rank, number, ids)
            gradients[rank] = pulled + np.float32(rank + number)
        sent = [(rank, number, gradients[rank]) for rank in ranks for _ in range(draw.randint(1, copies))]
        late += [each for each in sent if copies > 1 and draw.random() < 0.5]
        draw.shuffle(sent)
        for rank, of_batch, gradient in sent:
            answer = calls.push(rank, of_batch, gradient, step=number + 1, scale=0.125)
        assert answer is not None
        assert _applied(answer)
        assert answer.staleness == 0
        draw.shuffle(late)
        for _ in range(draw.randint(0, len(late))):
            rank, of_batch, gradient = late.pop()
            # An answer that was lost is given again, whatever the repeated call says.
            assert _applied(calls.push(rank, of_batch, gradient * 3, step=99, scale=1.0))
            with pytest.raises(MessageError, match="a pull after its push"):
                calls.pull(rank, of_batch, keys_of(calls.spec, "users", 1000 + of_batch))
    assert calls.shard.num_updates == batches
    assert calls.shard.pushes_done() == [batches, batches]
    return calls.rows()


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_a_push_without_its_pull_is_refused_and_one_after_it_is_not(mode: str) -> None:
    spec = spec_of(EVERY_MODE[mode], ranks=2)
    calls = Calls(spec)
    ids = keys_of(spec, "users", 1, 2)
    for rank, number in ((0, 0), (1, 3)):
        with pytest.raises(MessageError, match=f"rank {rank}, batch {number}"):
            calls.push(rank, number, ones(calls, 2))
        with pytest.raises(MessageError, match=f"rank {rank}, batch {number}"):
            calls.skip(rank, number)
    calls.pull(0, 0, ids)
    with pytest.raises(MessageError, match="rank 1, batch 0"):
        calls.push(1, 0, ones(calls, 2))
    for rank in (-1, 2):
        with pytest.raises(MessageError, match=f"no such rank .got {rank} of 2"):
            calls.pull(rank, 0, ids)
    calls.push(0, 0, ones(calls, 2))


def test_gradients_that_do_not_fit_are_refused_and_change_nothing() -> None:
    spec = spec_of(ASYNC, ranks=1)
    calls = Calls(spec, dense=initial_dense(spec))
    assert calls.shard.dense is not None
    ids = keys_of(spec, "users", 1, 2, 3)
    calls.pull(0, 0, ids)
    before, weights = calls.rows(), calls.shard.dense.weights()
    for wrong in (
        calls.push_of(ones(calls, 2)),
        calls.push_of(ones(calls, 4)),
        calls.push_of(ones(calls, 3), dense=np.zeros(len(weights) + 1, np.float32)),
        calls.push_of(ones(calls, 3), dense=np.zeros(1, np.float32)),
    ):
        with pytest.raises(MessageError):
            calls.shard.push(_caller(0, 0), wrong, patience_s=0.0)
        assert calls.rows() == before
    # The right ones still count, once.
    assert _applied(calls.push(0, 0, ones(calls, 3)))
    np.testing.assert_array_equal(calls.embeddings(ids), _embeddings(before, calls, ids) - np.float32(RATE))


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_gradients_that_are_not_finite_are_refused_and_change_nothing(mode: str, value: float) -> None:
    spec = spec_of(EVERY_MODE[mode])
    calls = Calls(spec, dense=initial_dense(spec))
    ids = keys_of(spec, "users", 1, 2)
    calls.pull(0, 0, ids)
    before = calls.rows()
    gradients = ones(calls, 2)
    gradients[1, 3] = value
    answer = calls.push(0, 0, gradients)
    assert _refused(answer)
    assert calls.rows() == before
    assert calls.shard.num_updates == calls.shard.num_examples == 0
    # It has been carried out: the same batch cannot come again with other gradients.
    assert _refused(calls.push(0, 0, ones(calls, 2)))
    assert calls.rows() == before


def test_a_dense_gradient_that_is_not_finite_moves_neither_weights_nor_rows() -> None:
    spec = spec_of(ASYNC)
    calls = Calls(spec, dense=initial_dense(spec))
    assert calls.shard.dense is not None
    ids = keys_of(spec, "users", 1)
    calls.pull(0, 0, ids)
    before, weights = calls.rows(), calls.shard.dense.weights()
    assert _refused(calls.push(0, 0, ones(calls, 1), dense=np.full_like(weights, np.nan)))
    assert calls.rows() == before
    np.testing.assert_array_equal(calls.shard.dense.weights(), weights)


def test_rows_that_an_eviction_has_moved_are_updated_where_they_are_and_removed_ones_stay_away() -> None:
    frequent = {"users": {"capacity": {"rows": 4, "evict": "least_frequent"}}}
    spec = spec_of(ASYNC, tables=frequent)
    calls = Calls(spec, dense=initial_dense(spec))
    rare, often, mixed = (keys_of(spec, "users", *ids) for ids in ((1, 2, 3), (11, 12, 13, 14), (1, 13, 3, 11)))
    calls.pull(0, 0, rare)
    calls.push(0, 0, ones(calls, 3, 0.0))
    calls.pull(0, 1, often, occurrences=5)
    calls.push(0, 1, ones(calls, 4, 0.0))
    pulled = calls.pull(0, 2, mixed)
    before = {int(key): calls.embeddings(np.array([key])) for key in often}
    calls.evict()
    assert set(calls.rows()) == set(often.tolist())
    assert _applied(calls.push(0, 2, ones(calls, 4, 8.0)))
    assert set(calls.rows()) == set(often.tolist())
    for key in often.tolist():
        moved = -8.0 * RATE if key in mixed.tolist() else 0.0
        np.testing.assert_array_equal(calls.embeddings(np.array([key])), before[key] + np.float32(moved))
    np.testing.assert_array_equal(calls.embeddings(rare), np.zeros_like(pulled[:3]))
    # The books count what was trained on, of rows that are left.
    keys, rows = calls.stores[calls.group].contents()
    counts = dict(zip(keys.tolist(), rows[:, -1].copy().view(np.int32).tolist(), strict=True))
    assert counts == {key: 6 if key in mixed.tolist() else 5 for key in often.tolist()}
    # A removed id that comes again begins anew.
    again = calls.pull(0, 3, rare)
    np.testing.assert_array_equal(again[[0, 2]], pulled[[0, 2]])


def test_ranks_that_make_the_same_rows_at_once_make_each_once() -> None:
    spec = spec_of(ASYNC, ranks=4)
    calls = Calls(spec, dense=initial_dense(spec))
    draw = np.random.default_rng(0)
    batches = [[keys_of(spec, "users", *draw.choice(200, 60, replace=False) + 1) for _ in range(10)] for _ in range(4)]

    def rank_of(rank: int) -> None:
        for number, ids in enumerate(batches[rank]):
            calls.pull(rank, number, ids)
            assert _applied(calls.push(rank, number, ones(calls, 60)))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(rank_of, range(4)))
    times = {key: sum(key in ids for of_rank in batches for ids in of_rank) for key in calls.rows()}
    assert set(times) == {int(key) for of_rank in batches for ids in of_rank for key in ids}
    ids = np.array(list(times))
    fresh = Calls(spec, dense=initial_dense(spec)).pull(0, 0, ids)
    moved = np.array([[times[key] * RATE] for key in times])
    np.testing.assert_allclose(calls.embeddings(ids), fresh - moved, atol=1e-6)
    assert calls.shard.num_updates == 40


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "adam", "ftrl"])
def test_gradients_of_two_ranks_update_a_row_as_those_of_one_with_both_batches(optimizer: str) -> None:
    changes: dict[str, Any] = {
        "embedding_optimizer": {"kind": optimizer, "learning_rate": 0.1},
        "tables": {"users": {"capacity": {"rows": 100, "evict": "least_frequent"}}},
    }
    together, alone = Calls(spec_of(STALE, ranks=2, **changes)), Calls(spec_of(STALE, ranks=1, **changes))
    draw = np.random.default_rng(0)
    for step in range(4):
        ids = [keys_of(together.spec, "users", *draw.choice(9, 6, replace=False) + 1) for _ in range(2)]
        # Multiples of 1/4: their sums are exact.
        gradients = [(draw.integers(-8, 8, [6, together.dim]) / 4).astype(np.float32) for _ in range(2)]
        for rank in (0, 1):
            together.pull(rank, step, ids[rank])
        assert together.push(1, step, gradients[1], step=step + 1, scale=0.25) is None
        assert _applied(together.push(0, step, gradients[0], step=step + 1, scale=0.25))
        both, index = np.unique(np.concatenate(ids), return_inverse=True)
        summed = np.zeros([len(both), together.dim], np.float32)
        np.add.at(summed, index, np.concatenate(gradients))
        alone.pull(0, step, both)
        alone.push(0, step, summed, step=step + 1, scale=0.25)
    keys, rows = together.stores[together.group].contents()
    other_keys, other_rows = alone.stores[alone.group].contents()
    order, other_order = np.argsort(keys), np.argsort(other_keys)
    np.testing.assert_array_equal(keys[order], other_keys[other_order])
    # Not to the bit: a processor may take the root of what fills its registers otherwise than of the rest.
    np.testing.assert_allclose(rows[order][:, :-2], other_rows[other_order][:, :-2], rtol=1e-6, atol=1e-7)
    # Newest minutes and counts; one pull counted a key of both ranks once.
    counts, other_counts = (each[:, -1].copy().view(np.int32) for each in (rows[order], other_rows[other_order]))
    assert (counts >= other_counts).all()
    assert counts.sum() == 4 * 2 * 6


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_pushes_that_overtake_each_other_are_carried_out_in_their_order(mode: str) -> None:
    spec = spec_of(EVERY_MODE[mode])
    calls = Calls(spec, dense=initial_dense(spec))
    ids = keys_of(spec, "users", 1)
    before = calls.pull(0, 0, ids)
    for number in (1, 2, 3):
        calls.pull(0, number, ids)
    assert calls.push(0, 3, ones(calls, 1)) is None
    assert calls.skip(0, 1) is None
    assert calls.push(0, 2, ones(calls, 1)) is None
    np.testing.assert_array_equal(calls.embeddings(ids), before)
    assert calls.push(0, 0, ones(calls, 1)).staleness == 0
    np.testing.assert_allclose(calls.embeddings(ids), before - np.float32(3 * RATE), atol=1e-6)
    assert [calls.push(0, number, ones(calls, 1)).staleness for number in (2, 3)] == [1, 2]
    assert calls.skip(0, 1).outcome.name == "SKIPPED"
    assert calls.shard.pushes_done() == [4]


def test_rows_of_a_rank_that_is_not_there_yet_wait_and_are_read_meanwhile() -> None:
    spec = spec_of(STALE, ranks=2)
    calls = Calls(spec)
    ids = keys_of(spec, "users", 1, 2)
    before = calls.pull(0, 0, ids)
    calls.pull(1, 0, ids)
    assert calls.push(0, 0, ones(calls, 2)) is None
    np.testing.assert_array_equal(calls.embeddings(ids), before)
    np.testing.assert_array_equal(calls.pull(0, 1, ids), before)
    assert _applied(calls.push(1, 0, ones(calls, 2)))
    np.testing.assert_array_equal(calls.embeddings(ids), before - np.float32(2 * RATE))
    # Rank 0 learns of it when it asks again; its next batch was read one update too early.
    assert calls.push(0, 0, ones(calls, 2)).staleness == 0
    calls.pull(1, 1, ids)
    assert calls.push(0, 1, ones(calls, 2), step=2) is None
    assert calls.push(1, 1, ones(calls, 2), step=2).staleness == 0
    assert calls.push(0, 1, ones(calls, 2), step=2).staleness == 1


def test_in_step_the_ranks_say_which_step_of_adam_it_is() -> None:
    calls, ids, w = _adam(STALE, step=40)
    m = v = np.zeros_like(w)
    for number, (step, scale) in enumerate([(3, 0.25), (7, 0.125)]):
        calls.pull(0, number, ids)
        calls.push(0, number, ones(calls, 2, 2.0), step=step, scale=scale)
        w, m, v = _adam_step(w, m, v, 2.0 * scale, step)
        np.testing.assert_allclose(calls.embeddings(ids), w, atol=1e-6)
    # Only `sync` and `stale` know how many examples a step has, and no server needs to.
    assert calls.shard.num_updates == 2


@pytest.mark.parametrize("mode", ["async", "shadow"])
def test_at_their_own_pace_every_push_is_a_step_of_adam_of_its_own(mode: str) -> None:
    calls, ids, w = _adam(EVERY_MODE[mode], step=40, ranks=2)
    m = v = np.zeros_like(w)
    pushes = [(0, 0, 4), (1, 0, 16), (1, 1, 2), (0, 1, 8)]
    for count, (rank, number, examples) in enumerate(pushes, start=1):
        calls.pull(rank, number, ids)
        # What a rank believes about the step does not count.
        calls.push(rank, number, ones(calls, 2, 2.0), step=1000 * rank, scale=1.0 / examples)
        w, m, v = _adam_step(w, m, v, 2.0 / examples, 40 + count)
        np.testing.assert_allclose(calls.embeddings(ids), w, atol=1e-6)
    assert calls.shard.num_updates == 4
    assert calls.shard.num_examples == 4 + 16 + 2 + 8


def test_the_dense_part_counts_steps_and_scales_gradients_as_the_rows_do() -> None:
    spec = spec_of(ASYNC, dense_optimizer={"kind": "adam", "learning_rate": 0.1}, ranks=2)
    start = initial_dense(spec)
    calls = Calls(spec, step=40, dense=start)
    assert calls.shard.dense is not None
    w = start["weights"].astype(np.float64)
    m = v = np.zeros_like(w)
    draw = np.random.default_rng(0)
    for count, (rank, number, examples) in enumerate([(0, 0, 4), (1, 0, 16), (0, 1, 2)], start=1):
        ids = keys_of(spec, "users", 1)
        calls.pull(rank, number, ids)
        gradient = draw.normal(size=w.shape).astype(np.float32)
        calls.push(rank, number, ones(calls, 1), step=7, scale=1.0 / examples, dense=gradient)
        w, m, v = _adam_step(w, m, v, gradient.astype(np.float64) / examples, 40 + count)
        np.testing.assert_allclose(calls.shard.dense.weights(), w, atol=2e-6)
    arrays = calls.shard.dense_arrays()
    np.testing.assert_allclose(arrays["m"], m, atol=1e-6)
    np.testing.assert_allclose(arrays["v"], v, atol=1e-6)


def test_an_exchange_repeated_moves_the_center_once() -> None:
    spec = spec_of({"kind": "shadow", "elastic_rate": 0.5}, ranks=2)
    start = {name: np.zeros(4, np.float32) for name in initial_dense(spec)}
    calls = Calls(spec, dense=start)
    w = np.full(4, 8.0, np.float32)
    for _ in range(3):
        assert calls.shard.exchange(_caller(0, 0), w).tolist() == [-4.0] * 4
    assert calls.shard.dense_arrays()["weights"].tolist() == [4.0] * 4
    assert calls.shard.exchange(_caller(1, 0), w).tolist() == [-2.0] * 4
    assert calls.shard.exchange(_caller(0, 1), w).tolist() == [-1.0] * 4
    assert calls.shard.exchange(_caller(1, 0), w * 9).tolist() == [-2.0] * 4
    assert calls.shard.dense_arrays()["weights"].tolist() == [7.0] * 4
    for size in (1, 3, 5):
        with pytest.raises(MessageError):
            calls.shard.exchange(_caller(0, 2), np.ones(size, np.float32))
    assert calls.shard.dense_arrays()["weights"].tolist() == [7.0] * 4


def test_what_begins_again_forgets_the_calls_before() -> None:
    """As when training returns to the best epoch: rows are loaded again, and batches count from 0."""
    spec = spec_of(STALE)
    calls = Calls(spec, dense=initial_dense(spec))
    ids = keys_of(spec, "users", 1)
    first = calls.pull(0, 0, ids)
    calls.push(0, 0, ones(calls, 1))
    calls.pull(0, 1, ids)
    calls.shard.empty()
    calls.shard.begin(0, 0, initial_dense(spec))
    calls.stores = calls.shard.rows.stores
    np.testing.assert_array_equal(calls.pull(0, 0, ids), first)
    assert _applied(calls.push(0, 0, ones(calls, 1)))
    with pytest.raises(MessageError, match="without its pull"):
        calls.push(0, 1, ones(calls, 1))


def _caller(rank: int, sequence: int) -> Caller:
    return Caller(0, rank, sequence)


def _embeddings(rows: dict[int, bytes], calls: Calls, ids: Any) -> Any:
    return np.stack([np.frombuffer(rows[int(key)], np.float32)[: calls.dim] for key in ids])


def _adam(sync: Any, *, step: int, ranks: int = 1) -> tuple[Calls, Any, Any]:
    spec = spec_of(sync, ranks=ranks, embedding_optimizer={"kind": "adam", "learning_rate": 0.1})
    calls = Calls(spec, step=step, dense=initial_dense(spec))
    ids = keys_of(spec, "users", 1, 2)
    fresh = Calls(spec).pull(0, 0, ids)
    return calls, ids, fresh.astype(np.float64)


def _adam_step(w: Any, m: Any, v: Any, g: Any, step: int) -> tuple[Any, Any, Any]:
    """Kingma, Ba: Adam, ICLR 2015, the form of its section 2's last paragraph; default settings, rate 0.1."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m / (np.sqrt(v) + 1e-7), m, v
