"""The share of its time that a training waits for input, by a clock that only the input and the steps move."""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainer_module.sample_job import declared, job

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

BATCHES = 5


class Clock:
    """Seconds, as `time.monotonic` gives them."""

    now = 0.0

    def monotonic(self) -> float:
        """Returns the seconds."""
        return self.now


class Trainer:
    """Takes so many seconds for a step."""

    def __init__(self, clock: Clock, step_s: float):
        self.ranker, self.rank, self.ranks, self.step = SimpleNamespace(spec=declared()), 0, 1, 0
        self._clock, self._step_s = clock, step_s

    updates_a_step = 1

    def facts(self) -> Any:
        """Nobody asks."""

    def steps(self, batches: Iterable[int]) -> Iterator[Any]:
        """Yields a result after each step."""
        for _ in batches:
            self._clock.now += self._step_s
            self.step += 1
            yield SimpleNamespace(count=1, losses_T=tf.zeros([2]), is_finite=True)

    def evict(self, _: Any) -> float:
        """Removes nothing."""
        return 0.0

    evict_if_due = evict

    def take_refused(self) -> int:
        """Nothing is refused."""
        return 0

    def share(self, _: Any) -> None:
        """It is alone."""


def _batches(clock: Clock, read_s: float) -> Iterator[int]:
    for number in range(BATCHES):
        clock.now += read_s
        yield number


def test_slow_input_is_told_as_the_share_of_the_time_that_training_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop import epoch
    from sangam.trainer_module.loop.history import History
    from sangam.trainer_module.loop.report import write_report
    from sangam.trainer_module.monitoring.training import Metrics

    collectives.start()
    clock, history = Clock(), History()
    monkeypatch.setattr(epoch, "time", clock)
    for number, (read_s, step_s) in enumerate([(1.0, 3.0), (9.0, 1.0), (0.0, 1.0)]):
        report = history.report_of(number)
        trainer = Trainer(clock, step_s)
        progress = SimpleNamespace(
            stepped=lambda examples, losses: None, metrics=Metrics(), waited_s=0.0, rank_waited_s=None
        )
        deque(epoch.train_epoch(trainer, _batches(clock, read_s), progress, report))
        assert progress.waited_s == BATCHES * read_s
        assert (report.input_wait_s, report.seconds) == (BATCHES * read_s, BATCHES * (read_s + step_s))
    rates = SimpleNamespace(rates={})
    ranker = SimpleNamespace(tasks=("like", "watch"), weights=SimpleNamespace(size=1), unseen=rates)
    trained = SimpleNamespace(ranks=1, step=15, ranker=ranker, layers=lambda: "")
    written = job(tmp_path, declared(), ())
    Path(written.output_dir).mkdir()
    manifest = SimpleNamespace(days=(), calibrations={})
    quiet = SimpleNamespace(observer=None)
    run = SimpleNamespace(
        job=written,
        trainer=trained,
        history=history,
        seconds=75.0,
        manifest=manifest,
        progress=quiet,
    )
    write_report(run, {}, {}, [])
    told = json.loads(written.report_file.read_text())
    assert [each["input_wait"] for each in told["epochs"]] == [0.25, 0.9, 0.0]
    assert told["input_wait"] == round(50 / 75, 4)
