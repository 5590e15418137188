"""Training of ranks at their own pace: they synchronize only for checkpoints and at the end of an epoch.

For the rows, every rank's batch is a step of its own. One step in the spec's settings is as many batches as there are
ranks.
"""

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.history import EpochReport
from sangam.trainer_module.loop.served import Numbered, ServedTrainer
from sangam.trainer_module.loop.step import StepResult
from sangam.trainer_module.progress import Progress

_STEPS_TO_NEXT_TRY = 20


class OwnPaceTrainer(ServedTrainer):
    """A rank that waits for no other rank within an epoch."""

    def __init__(self, *arguments: Any, is_dealt: bool = False, **more: Any):
        """See `ServedTrainer`.

        Args:
            arguments: see `ServedTrainer`.
            is_dealt: whether a pool gives each batch to the rank that asks. Otherwise the ranks share each global
                batch, and the rest of an epoch is known only after all ranks have trained on equally many.
            more: see `ServedTrainer`.
        """
        super().__init__(*arguments, **more)
        self._is_dealt = is_dealt
        self._all_steps = self._paused_at = self._num_trained_before = self._evicted_interval = 0

    @property
    def step(self) -> int:
        """See `Trainer`: all updates at the last pause, divided by the number of ranks."""
        return self._all_steps

    @property
    def updates_a_step(self) -> int:
        """See `Trainer`."""
        return self.ranks

    def _steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """Yields empty results while other ranks train on, so that this rank can save with them."""
        waiting: deque[Numbered] = deque()
        source = iter(batches)
        updates_before, own_batches = self._paused_at, 0
        while True:
            self._offer(source, waiting, self._sync.staleness + 1)
            if not waiting:
                break
            trained = self._train(waiting.popleft())
            own_batches += 1
            self._after_step()
            done = self._updates if self._is_dealt else updates_before + own_batches * self.ranks
            self.may_save = done >= self._pause_after
            if self.may_save:
                self._pause(is_finished=False)
            yield trained
        self.may_save = True
        while not self._pause(is_finished=True):
            yield StepResult(tf.zeros([len(self.ranker.tasks)]), tf.constant(0.0), tf.constant(True))

    def evict_if_due(self, progress: Progress) -> float:
        """See `Trainer`; the first rank alone, by all ranks' updates: the others train on meanwhile."""
        interval = self._updates // (self.ranker.spec.training.evict_every_steps * self.ranks)
        if interval == self._evicted_interval:
            return 0.0
        self._evicted_interval, started = interval, time.monotonic()
        with progress.beating():
            self._evict_alone()
        return time.monotonic() - started

    def _after_step(self) -> None:
        """Exchanges dense weights, if ranks have their own."""

    @property
    def _pause_after(self) -> int:
        """The number of updates in this attempt after which the ranks pause, equal on all of them."""
        due = (self.next_pause - self._num_trained_before) * self.ranks
        # If a pause wrote no checkpoint, because the last one was still being written, another pause follows later.
        return due if due > self._paused_at else self._paused_at + _STEPS_TO_NEXT_TRY * self.ranks

    def _pause(self, *, is_finished: bool) -> bool:
        """Pauses with all other ranks, each between two of its steps; returns whether no rank has a batch left."""
        self._drain()
        own = np.array([[int(is_finished), self._updates]], np.int64)
        of_all_ranks = collectives.allgather(own, name="pause")
        # The answer to the last push has the total number of updates.
        self._paused_at = int(of_all_ranks[:, 1].max())
        self._all_steps = self._num_trained_before + self._paused_at // self.ranks
        are_finished = bool(of_all_ranks[:, 0].all())
        if not are_finished:
            self._settle()
        return are_finished

    def _settle(self) -> None:
        collectives.barrier(name="settled")
        self._check_pushes()
        self._read_model()
        # No rank trains on before all have read.
        collectives.barrier(name="read_model")

    @abstractmethod
    def _read_model(self) -> None:
        """Reads the dense weights of all ranks from the servers."""

    def begin(self) -> None:
        """See `Trainer`."""
        self._num_trained_before = self._all_steps = int(self._state.step)
        super().begin()

    def begin_schedule(self, *, step: int, pace: float) -> None:
        """See `Trainer`."""
        super().begin_schedule(step=step, pace=pace)
        self._all_steps, self._num_trained_before = step, step - self._paused_at // self.ranks

    def share(self, report: EpochReport) -> None:
        """See `Trainer`."""
        own = range(report.num_shared, len(report.step_losses))
        lines = [[index, report.step_examples[index], *report.step_losses[index]] for index in own]
        width = 2 + len(self.ranker.tasks)
        of_all_ranks = collectives.allgather(np.array(lines, np.float64).reshape(-1, width), name="steps")
        of_all_ranks = of_all_ranks[np.argsort(of_all_ranks[:, 0], kind="stable")]
        left_out = [report.skipped - report.shared_skipped, report.left_out - report.shared_left_out]
        skipped, examples = collectives.allreduce_sum(tf.constant(left_out, tf.int64), name="left_out").numpy()
        report.skipped = report.shared_skipped = report.shared_skipped + int(skipped)
        report.left_out = report.shared_left_out = report.shared_left_out + int(examples)
        report.step_examples[report.num_shared :] = [int(line[1]) for line in of_all_ranks]
        report.step_losses[report.num_shared :] = of_all_ranks[:, 2:].tolist()
        report.num_shared = len(report.step_losses)
