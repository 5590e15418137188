"""What a server does when a rank is lost: the others go on, and each batch counts once."""

from typing import Any

import numpy as np
import pytest

from tests.trainer_module.parameter_server.sample_shards import (
    EVERY_MODE,
    RATE,
    STALE,
    Calls,
    initial_dense,
    keys_of,
    ones,
    spec_of,
)
from trainer_module.parameter_server.shard import Outcome
from trainer_module.parameter_server.wire import Caller, MessageError

pytestmark = pytest.mark.slow


def _line(epoch: int, part: int, number: int) -> tuple[float, ...]:
    return float(epoch), float(part), float(number), 0.0, 32.0, 0.5


def _send(calls: Calls, rank: int, number: int, ids: Any, line: tuple[float, ...], *, value: float = 1.0) -> Any:
    calls.pull(rank, number, ids)
    push = calls.push_of(ones(calls, len(ids), value), step=number + 1)
    return calls.shard.push(Caller(0, rank, number), push, patience_s=0.0, line=line)


def test_ranks_in_step_wait_no_longer_for_one_that_has_left_and_what_it_has_sent_counts() -> None:
    spec = spec_of(STALE, ranks=3)
    calls, ids = Calls(spec), keys_of(spec, "users", 1, 2)
    before = calls.pull(0, 0, ids)
    for rank in (0, 2):
        assert _send(calls, rank, 0, ids, _line(0, 0, rank)) is None
    assert _send(calls, 1, 0, ids, _line(0, 0, 1)).outcome == Outcome.APPLIED
    np.testing.assert_allclose(calls.embeddings(ids), before - np.float32(3 * RATE), atol=1e-6)
    assert _send(calls, 2, 1, ids, _line(0, 0, 12)) is None
    assert _send(calls, 0, 1, ids, _line(0, 0, 10)) is None
    calls.shard.leave(2)
    assert _send(calls, 1, 1, ids, _line(0, 0, 11)).outcome == Outcome.APPLIED
    np.testing.assert_allclose(calls.embeddings(ids), before - np.float32(6 * RATE), atol=1e-6)
    for rank in (0, 1):
        answer = _send(calls, rank, 2, ids, _line(0, 0, 20 + rank))
    assert answer.outcome == Outcome.APPLIED
    np.testing.assert_allclose(calls.embeddings(ids), before - np.float32(8 * RATE), atol=1e-6)
    assert [line[:3] for line in calls.shard.trained_by(2, 0)] == [(0, 0, 2), (0, 0, 12)]
    with pytest.raises(MessageError, match="does not take part"):
        calls.pull(2, 2, ids)


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_a_batch_of_a_lost_rank_updates_nothing_when_another_rank_trains_on_it_again(mode: str) -> None:
    """Whatever the other servers know of it: this one has had its gradients."""
    spec = spec_of(EVERY_MODE[mode], ranks=2)
    calls, ids = Calls(spec, dense=initial_dense(spec)), keys_of(spec, "users", 1, 2)
    before = calls.pull(1, 0, ids)
    _send(calls, 1, 0, ids, _line(3, 0, 5))
    _send(calls, 0, 0, ids, _line(3, 0, 4))
    once = calls.embeddings(ids)
    np.testing.assert_allclose(once, before - np.float32(2 * RATE), atol=1e-6)
    weights = None if calls.shard.dense is None else calls.shard.dense.weights()
    calls.shard.leave(1)
    assert _send(calls, 0, 1, ids, _line(3, 0, 5)).outcome == Outcome.APPLIED
    np.testing.assert_array_equal(calls.embeddings(ids), once)
    if calls.shard.dense is not None:
        np.testing.assert_array_equal(calls.shard.dense.weights(), weights)
    # Also after another generation has begun, which counts calls from 0 again; but not in another epoch.
    calls.shard.begin_generation([0, 1])
    calls.shard.begin(0, 0, initial_dense(spec))
    for rank in (1, 0):
        answer = _send(calls, rank, 0, ids, _line(3, 0, 5 if rank else 6))
    assert answer.outcome == Outcome.APPLIED
    np.testing.assert_allclose(calls.embeddings(ids), once - np.float32(RATE), atol=1e-6)
    for rank in (1, 0):
        _send(calls, rank, 1, ids, _line(4, 0, 5 + rank))
    np.testing.assert_allclose(calls.embeddings(ids), once - np.float32(3 * RATE), atol=1e-6)
    assert calls.shard.trained_by(1, 3) == []
