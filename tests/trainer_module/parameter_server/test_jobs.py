"""Whole jobs with parameter servers against jobs in step, an oracle of what is stale, and themselves."""

import json
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.parameter_server.calls import Status
from sangam.trainer_module.parameter_server.service import Service
from sangam.trainer_module.parameter_server.wire import Caller
from tests.trainer_module.parameter_server.sample_servers import made_job, train_alone, train_served
from tests.trainer_module.sample_job import NUM_EXAMPLES, declared, read_dense, read_rows, run_ranks, write_examples

pytestmark = pytest.mark.slow

GROUPS = ("adagrad_4", "adagrad_8")
NUM_BATCHES = -(-NUM_EXAMPLES // 64)
LIMITED: dict[str, Any] = {
    "event_time": "time",
    "evict_every_steps": 4,
    "tables": {
        "users": {"capacity": {"rows": 31, "evict": "least_frequent"}, "expire_after_days": 1},
        "posts": {"capacity": {"rows": 50}},
    },
}
"""A spec whose tables lose rows, by both orders and by age."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"), minutes_apart=10)


def _spec(sync: Mapping[str, Any] | None, *, ranks: int = 1, servers: int = 2, **changes: Any) -> RankerSpec:
    if sync is None:
        return declared(ranks=ranks, batch_size_per_rank=64 // ranks, **changes)
    return declared(sync=dict(sync), ranks=ranks, parameter_servers=servers, batch_size_per_rank=64 // ranks, **changes)


def _report(directory: Path) -> Any:
    return json.loads((directory / "output" / "training.json").read_text())


def _assert_same(directory: Path, expected: Path, tolerance: float) -> None:
    np.testing.assert_allclose(
        np.load(directory / "output" / "losses.npy"), np.load(expected / "output" / "losses.npy"), atol=tolerance
    )
    for group in GROUPS:
        keys, rows = read_rows(directory / "final", group)
        expected_keys, expected_rows = read_rows(expected / "final", group)
        assert len(keys) > 10
        np.testing.assert_array_equal(keys, expected_keys)
        np.testing.assert_allclose(rows, expected_rows, atol=tolerance)
    dense = read_dense(expected / "final")
    for name, vector in read_dense(directory / "final").items():
        np.testing.assert_allclose(vector, dense[name], atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def of_two_ranks(tmp_path_factory: pytest.TempPathFactory, files: tuple[str, ...]) -> Path:
    """A job of two ranks and two servers with staleness 0, whose tables lose rows."""
    directory = tmp_path_factory.mktemp("of_two_ranks")
    train_served(made_job(directory, _spec({"kind": "stale", "staleness": 0}, ranks=2, **LIMITED), files))
    return directory


def test_with_staleness_0_a_job_of_one_rank_learns_what_one_in_step_learns(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    average = {"kind": "last"}
    train_alone(made_job(tmp_path / "sync", _spec(None, average=average), files))
    train_served(made_job(tmp_path / "stale", _spec({"kind": "stale", "staleness": 0}, average=average), files))
    _assert_same(tmp_path / "stale", tmp_path / "sync", 1e-6)
    assert _report(tmp_path / "stale")["sync"]["staleness"] == {"0": NUM_BATCHES}


@pytest.mark.long
def test_with_staleness_0_two_ranks_learn_what_two_in_step_learn(
    tmp_path: Path, files: tuple[str, ...], of_two_ranks: Path
) -> None:
    run_ranks(tmp_path, _spec(None, ranks=2, **LIMITED), files)
    _assert_same(of_two_ranks, tmp_path, 1e-6)
    tables = _report(of_two_ranks)["tables"]
    assert (tables["users"]["rows"], tables["posts"]["rows"]) == (31, 50)
    assert min(tables["users"]["expired"], tables["users"]["evicted"], tables["posts"]["evicted"]) > 10
    assert _report(of_two_ranks)["sync"]["staleness"] == {"0": 2 * NUM_BATCHES}


class _Slow(Service):
    """Answers after random pauses, so that calls overtake each other, and loses some answers."""

    def __init__(self, made: TrainJob, server: int, *, longest_s: float, lost: float = 0.0):
        self._draw, self._longest_s, self._lost = random.Random(server), longest_s, lost
        self.num_lost = 0
        super().__init__(made, server=server)

    def answer(self, method: str, caller: Caller, arrays: list[Any]) -> tuple[Status, Any]:
        if method in ("pull", "push"):
            time.sleep(self._draw.random() * self._longest_s)
        self._lose(method)
        answered = super().answer(method, caller, arrays)
        self._lose(method)
        return answered

    def _lose(self, method: str) -> None:
        """Ends the connection, before the call is carried out or after it."""
        if method in ("pull", "push", "meet", "evict") and self._draw.random() < self._lost / 2:
            self.num_lost += 1
            raise ConnectionError("lost")


@pytest.mark.long
def test_staleness_never_exceeds_its_bound_whatever_is_slow(tmp_path: Path, files: tuple[str, ...]) -> None:
    ranks, staleness = 2, 3
    spec = _spec({"kind": "stale", "staleness": staleness}, ranks=ranks)
    train_served(made_job(tmp_path, spec, files), service_of=lambda *of: _Slow(*of, longest_s=0.05))
    told = {int(key): times for key, times in _report(tmp_path)["sync"]["staleness"].items()}
    assert sum(told.values()) == ranks * NUM_BATCHES
    assert 0 < max(told) <= staleness


@pytest.mark.long
def test_lost_calls_and_lost_answers_change_no_bit(
    tmp_path: Path, files: tuple[str, ...], of_two_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sangam.trainer_module.parameter_server.lane._PAUSE_S", 0.001)
    spec = _spec({"kind": "stale", "staleness": 0}, ranks=2, **LIMITED)
    services = train_served(
        made_job(tmp_path, spec, files), service_of=lambda *of: _Slow(*of, longest_s=0.005, lost=0.4)
    )
    assert sum(service.num_lost for service in services if isinstance(service, _Slow)) > 50
    _assert_same(tmp_path, of_two_ranks, 0.0)


class _Latest(Service):
    """Carries out a push as late as the bound allows: after the pull of `staleness` batches later was answered.

    So what a pull reads is known. Also notes all pulls and pushes, by number and rank.

    Attributes:
        pulled: keys and embeddings of each batch, by group.
        pushed: gradients of each batch by group, and their scale.
    """

    def __init__(self, made: TrainJob, server: int, *, every: int | None = None):
        sync = made.ranker.training.sync
        self._t, self._every = sync.staleness, every  # type: ignore[union-attr]
        self._before = 0
        self.pulled: dict[tuple[int, int], dict[str, tuple[Any, Any]]] = {}
        self.pushed: dict[tuple[int, int], tuple[dict[str, Any], float]] = {}
        self._changed_pulls = threading.Condition()
        super().__init__(made, server=server)

    def _begin(self, caller: Caller, arrays: list[Any]) -> Any:
        self._before = json.loads(arrays[0].tobytes())["step"]
        return super()._begin(caller, arrays)

    def _pull(self, caller: Caller, arrays: list[Any]) -> Any:
        answered = super()._pull(caller, arrays)
        keys, rows = arrays[1 : 1 + len(self._groups)], answered[1 : 1 + len(self._groups)]
        with self._changed_pulls:
            self.pulled[caller.sequence, caller.rank] = dict(
                zip(self._groups, zip(keys, rows, strict=True), strict=True)
            )
            self._changed_pulls.notify_all()
        return answered

    def _is_awaited(self, number: int) -> bool:
        """Whether the pull of `staleness` batches later is sent before this push."""
        step = self._before + number
        if step >= NUM_BATCHES:
            return False
        return self._every is None or step + self._t < (step // self._every + 1) * self._every

    def _push(self, caller: Caller, arrays: list[Any]) -> Any:
        number = caller.sequence
        if self._is_awaited(number):
            with self._changed_pulls:
                assert self._changed_pulls.wait_for(lambda: (number + self._t, caller.rank) in self.pulled, 20)
        if not arrays[0][2]:
            gradients = dict(zip(self._groups, arrays[3:], strict=True))
            self.pushed[number, caller.rank] = gradients, float(arrays[1][0])
        return super()._push(caller, arrays)


@pytest.mark.parametrize(("ranks", "staleness"), [(1, 1), pytest.param(2, 3, marks=pytest.mark.long)])
def test_a_batch_reads_the_updates_of_all_batches_but_the_last_few(
    tmp_path: Path, files: tuple[str, ...], ranks: int, staleness: int
) -> None:
    """The oracle applies each batch's gradients to a table in NumPy, as late as they may come."""
    spec = _spec(
        {"kind": "stale", "staleness": staleness},
        ranks=ranks,
        servers=1,
        embedding_optimizer={"kind": "sgd", "learning_rate": 0.5},
    )
    [service] = train_served(made_job(tmp_path, spec, files), service_of=_Latest)
    assert isinstance(service, _Latest)
    assert sorted(service.pushed) == [(number, rank) for number in range(NUM_BATCHES) for rank in range(ranks)]
    for group in service.pulled[0, 0]:
        table: dict[int, Any] = {}
        moved = 0
        for number in range(NUM_BATCHES):
            if number > staleness:
                _update(table, service, group, number - staleness - 1)
            for rank in range(ranks):
                keys, embeddings = service.pulled[number, rank][group]
                for key, embedding in zip(keys.tolist(), embeddings, strict=True):
                    moved += key in table
                    np.testing.assert_allclose(table.setdefault(key, embedding), embedding, atol=1e-6)
        for number in range(NUM_BATCHES - staleness - 1, NUM_BATCHES):
            _update(table, service, group, number)
        assert moved > 50
        keys, rows = read_rows(tmp_path / "final", group)
        assert set(keys.tolist()) == set(table)
        np.testing.assert_allclose(rows, [table[key] for key in keys.tolist()], atol=1e-6)
    told = _report(tmp_path)["sync"]["staleness"]
    expected = {late: ranks for late in range(staleness)} | {staleness: ranks * (NUM_BATCHES - staleness)}
    assert told == {str(late): times for late, times in expected.items()}


def _update(table: dict[int, Any], service: _Latest, group: str, number: int) -> None:
    for rank in range(service._job.ranker.cluster.ranks):
        gradients, scale = service.pushed[number, rank]
        for key, gradient in zip(service.pulled[number, rank][group][0].tolist(), gradients[group], strict=True):
            table[key] = table[key] - np.float32(0.5) * (gradient * np.float32(scale))


class _Stopping(_Latest):
    """Fails at a batch's pull."""

    def _pull(self, caller: Caller, arrays: list[Any]) -> Any:
        if caller.sequence == 13:
            with self._changed_pulls:
                self.pulled[13, caller.rank] = {}
                self._changed_pulls.notify_all()
            raise OSError("pretended")
        return super()._pull(caller, arrays)


@pytest.mark.long
def test_a_stale_job_that_was_resumed_ends_with_the_bits_of_an_undisturbed_one(
    tmp_path: Path, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.loop.checkpointing import Checkpointer

    as_it_is, every = Checkpointer.after_step, 5
    average = {"kind": "last"}
    spec = _spec({"kind": "stale", "staleness": 2}, checkpoint={"every_steps": every, "keep": 1}, average=average)

    def late(kind: type[_Latest]) -> Any:
        return lambda *of: kind(*of, every=every)

    def wait_for_the_disk(checkpointer: Checkpointer) -> None:
        as_it_is(checkpointer)
        checkpointer.writer.finish()

    monkeypatch.setattr(Checkpointer, "after_step", wait_for_the_disk)
    train_served(made_job(tmp_path / "undisturbed", spec, files), service_of=late(_Latest))
    disturbed = made_job(tmp_path / "disturbed", spec, files)
    with pytest.raises(RuntimeError, match="a parameter server refused"):
        train_served(disturbed, service_of=late(_Stopping))
    train_served(disturbed, attempt="1", service_of=late(_Latest))
    assert _report(tmp_path / "disturbed")["resumed_from_step"] == [10]
    _assert_same(tmp_path / "disturbed", tmp_path / "undisturbed", 0.0)
