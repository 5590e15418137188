"""Progress of a job for observers: each rank's heartbeat file, and progress lines by rank 0 and the launcher.

A line is a JSON object: training numbers (`step`, ...), validation results, or a sentence (`says`).
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.host.files import add_json_line, json_lines
from sangam.trainer_module.monitoring.training import Metrics

_HEARTBEAT_EVERY_S = 1.0
_PROGRESS_EVERY_S = 2.0
_TAIL_BYTES = 8192


def say(file: Path, sentence: str, **more: object) -> None:
    """Appends a sentence to the progress lines; it describes the job until the next line.

    Args:
        file: `progress.jsonl`.
        sentence: text for people.
        more: fields for programs.
    """
    add_json_line(file, {"says": sentence, **more})


def newest_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the last complete progress lines, newest first; none without a file."""
    yield from reversed(json_lines(file, _TAIL_BYTES))


class StepObserver(Protocol):
    """Receives the training events of rank 0; `loop.events.Events` records them."""

    def stepped(self, step: int, losses: Sequence[float], examples_per_s: float) -> None: ...
    def validated(self, step: int, results: Mapping[str, Mapping[str, float]]) -> None: ...
    def finished(self, step: int, report: Mapping[str, Any], norm_edges: Sequence[float]) -> None: ...


class Progress:
    """Writes `heartbeat-<rank>` and, on rank 0, lines of `progress.jsonl`.

    Attributes:
        step: number of steps of all ranks together so far.
        examples: number of examples trained on so far.
        expected: number of examples of the whole training, without early stopping; 0: unknown.
        waited_s: seconds that this process has waited for batches.
        rank_waited_s: seconds of its steps that it has waited for other ranks; None where they are unknown.
    """

    def __init__(
        self,
        job: TrainJob,
        rank: int,
        observer: StepObserver | None = None,
        *,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Takes the job, this rank, an observer of steps, and `metrics` for Prometheus."""
        self.metrics = metrics or Metrics()
        self._heartbeat: Path = job.heartbeat_file(rank)
        self._file = job.progress_file if rank == 0 else None
        self._clock = clock
        self.observer = observer
        self._started = self._next_line = self._next_beat = clock()
        self._resumed_examples = 0
        self._tasks = tuple(job.ranker.tasks)
        self.examples = 0
        self.step = 0
        self.waited_s = 0.0
        self.rank_waited_s: float | None = None
        self.expected = job.num_train_examples * job.ranker.training.epochs

    def resume(self, *, step: int, examples: int) -> None:
        """Sets the earlier progress; the rate counts only later examples."""
        self.step, self.examples, self._resumed_examples = step, examples, examples
        self._started = self._clock()

    def beat(self) -> None:
        """Touches the heartbeat file; cheap enough for every step."""
        now = self._clock()
        if now >= self._next_beat:
            self._heartbeat.touch()
            self._next_beat = now + _HEARTBEAT_EVERY_S

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Keeps touching the heartbeat file while the body runs, for long work such as reading a checkpoint."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(_HEARTBEAT_EVERY_S):
                self._heartbeat.touch()

        self._heartbeat.touch()
        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def stepped(self, examples: int, losses: Sequence[float]) -> None:
        """Counts a step of all ranks together, with its loss by task; writes a line from time to time."""
        self.beat()
        self.step += 1
        self.examples += examples
        now = self._clock()
        rate = (self.examples - self._resumed_examples) / max(now - self._started, 1e-9)
        if self.observer is not None:
            self.observer.stepped(self.step, losses, rate)
        is_last = self.examples - examples < self.expected <= self.examples
        if self._file and (now >= self._next_line or is_last):
            self._next_line = now + _PROGRESS_EVERY_S
            told = {"loss": sum(losses), "examples_per_s": round(rate, 1)}
            by_task = dict(zip(self._tasks, losses, strict=True))
            done = {"step": self.step, "examples": self.examples, "expected": self.expected}
            self._write({**done, **told, "losses": by_task})

    def validated(self, epoch: int, results: Mapping[str, Mapping[str, float]]) -> None:
        """Adds the metrics of the validation split after an epoch, from 0: {task: {metric: value}}."""
        self._write({"epoch": epoch, "validation": results})
        self.metrics.validated(results)
        if self.observer is not None:
            self.observer.validated(self.step, results)

    def say(self, sentence: str) -> None:
        """Appends a sentence for people."""
        if self._file:
            say(self._file, sentence)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file:
            add_json_line(self._file, line)
