"""Jobs whose ranks train at their own pace: nothing is lost, nothing is trained on twice, nobody hangs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.checkpoint.writer import Writer
from sangam.trainer_module.parameter_server.service import Service
from sangam.trainer_module.parameter_server.wire import Caller
from tests.trainer_module.parameter_server.sample_servers import made_job, train_served
from tests.trainer_module.sample_job import NUM_EXAMPLES, write_examples
from tests.trainer_module.trained_examples import counted_ids, counting, occurrences, report_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

EVERY = 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_examples(tmp_path_factory.mktemp("data"))


def _spec(kind: str, **changes: Any) -> RankerSpec:
    settings: dict[str, Any] = {
        "evict_every_steps": 2,
        "epochs": 1,
        "batch_size_per_rank": 32,
        "checkpoint": {"every_steps": EVERY, "keep": 2},
    } | changes
    return counting(sync={"kind": kind, "staleness": 1}, parameter_servers=1, shuffle_buffer=1, **settings)


class _Uneven(Service):
    """Is slow with rank 1, and fails at a batch of rank 0 if told to."""

    def __init__(self, made: TrainJob, server: int, *, fails_at: int | None = None):
        self._fails_at = fails_at
        super().__init__(made, server=server)

    def _pull(self, caller: Caller, arrays: list[Any]) -> Any:
        if caller.rank == 1:
            time.sleep(0.1)
        elif caller.sequence == self._fails_at:
            raise OSError("pretended")
        return super()._pull(caller, arrays)


def _uneven(**settings: Any) -> Callable[..., Service]:
    return lambda *of: _Uneven(*of, **settings)


def _assert_each_example_counted_once(directory: Path, files: tuple[str, ...]) -> None:
    assert [epoch["examples"] for epoch in report_of(directory)["epochs"]] == [NUM_EXAMPLES]
    assert counted_ids(directory) == dict(occurrences(files))


@pytest.mark.long
def test_a_job_with_a_slow_rank_that_was_resumed_trains_on_each_example_once(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    made = made_job(tmp_path, _spec("async"), files)
    with pytest.raises(RuntimeError, match="a parameter server refused"):
        train_served(made, service_of=_uneven(fails_at=12))
    [service] = train_served(made, attempt="1", service_of=_uneven())
    # Each eviction takes one call more than there are groups; the last one ends the epoch.
    assert service._calls["evict"] > 3
    assert len(report_of(tmp_path)["resumed_from_step"]) == 1
    _assert_each_example_counted_once(tmp_path, files)


@pytest.mark.long
def test_a_checkpoint_that_is_due_while_another_is_written_holds_nobody_up(
    tmp_path: Path, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_job(tmp_path, _spec("async"), files)
    was_asked: list[bool] = []

    def is_writing(writer: Writer) -> bool:
        del writer
        was_asked.append(True)
        return True

    monkeypatch.setattr(Writer, "is_writing", property(is_writing))
    train_served(made, service_of=_uneven())
    # Once for each rank and pause, not in every step.
    assert 2 <= len(was_asked) <= 4
    _assert_each_example_counted_once(tmp_path, files)
