"""When a training writes its checkpoints, and what goes into them besides the weights and rows."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer_module import collectives
from trainer_module.checkpoint import folder
from trainer_module.checkpoint.manifest import Manifest
from trainer_module.checkpoint.writer import Contents, Writer
from trainer_module.input.batch import Batch
from trainer_module.input.service_reader import PoolEpoch, broken_parts, refuse_lost
from trainer_module.input.train_input import TrainInput, no_batches
from trainer_module.loop.history import History
from trainer_module.loop.progress import Progress
from trainer_module.loop.trainer import Trainer

_LOG = logging.getLogger("trainer_module.rank")
_MOST_TIMES_ASKED_AGAIN = 10
"""In an epoch: each time, another worker was lost while it read what the one before had taken with it."""


@dataclass
class Schedule:
    """Writes a checkpoint every so many steps, one after each epoch that is the best so far, and one at the end.

    Attributes:
        trainer: whose state is written.
        source: of the batches; says how far they have been trained on.
        history: grows while training goes on.
        progress: counts the examples.
        manifest: what all checkpoints of the job have in common.
        directory: for those on the way.
        every_steps: how often.
        keep: how many of the last ones stay.
        writer: of this rank.
    """

    trainer: Trainer
    source: TrainInput
    history: History
    progress: Progress
    manifest: Manifest
    directory: Path
    every_steps: int
    keep: int
    writer: Writer

    def __post_init__(self) -> None:
        self._next = self._due_after(self.trainer.step)
        self._started = self._epoch_started = time.monotonic()
        self._times_asked_again = 0

    def _due_after(self, step: int) -> int:
        return (step // self.every_steps + 1) * self.every_steps

    @property
    def seconds(self) -> float:
        """Since this process has begun to train."""
        return time.monotonic() - self._started

    def begin_epoch(self) -> None:
        """Says that an epoch begins, or is taken up."""
        self._epoch_started = time.monotonic()
        self._times_asked_again = 0

    def end_epoch(self) -> Iterable[Batch] | None:
        """Looks whether the epoch is whole, now that no rank has a batch of it left; all ranks call it.

        Returns:
            What a lost worker of the pool has taken with it, to be trained on now; None: the epoch is whole.

        Raises:
            LostBatchesError: on all ranks, when the pool keeps losing some.
        """
        delivered = self.source.delivered()
        if delivered is None:
            return None
        broken = self._broken_parts(delivered)
        if len(broken) == 0:
            return None
        _LOG.warning("a data worker was lost: parts=%s of the epoch are asked for again", broken.tolist())
        return self.source.ask_again(broken)

    def validate(self, epoch: int) -> dict[str, dict[str, float]]:
        """Returns the metrics of the validation split after an epoch; all ranks call it.

        Raises:
            LostBatchesError: on all ranks, when the pool keeps losing some of it.
        """
        self._times_asked_again = 0
        while True:
            batches = self.source.validation(epoch, self._times_asked_again)
            results = self.trainer.validate(batches, self.progress)
            if not isinstance(batches, PoolEpoch) or len(self._broken_parts(batches.delivered(no_batches()))) == 0:
                self.history.validated = self.trainer.num_validated
                return results
            _LOG.warning("a data worker was lost: the validation split is scored again")

    def _broken_parts(self, delivered: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the parts that have not come whole to the ranks together.

        Raises:
            LostBatchesError: there have been such too often.
        """
        delivered = collectives.allreduce_sum(tf.constant(delivered), name="delivered").numpy()
        broken = broken_parts(delivered)
        if len(broken):
            self._times_asked_again += 1
            if self._times_asked_again > _MOST_TIMES_ASKED_AGAIN:
                refuse_lost(delivered)
        return broken

    def after_step(self) -> None:
        """Writes a checkpoint where one is due; all ranks call it after every step.

        Raises:
            Whatever kept the last one from being written, but for a disk that may do better next time.
        """
        self.source.stepped()
        self.writer.check()
        self._note_given_up()
        if self.trainer.step < self._next:
            return
        # Asked only when one is due. If the disk is slower than training, the checkpoint waits for a later step, on
        # all ranks alike: a snapshot is a second copy of the rows, and there is never a third.
        is_writing = tf.constant(int(self.writer.is_writing))
        if int(collectives.allreduce_sum(is_writing, name="checkpoint_busy")) > 0:
            return
        self._write(epoch_s=time.monotonic() - self._epoch_started)

    def write_best(self) -> None:
        """Writes a checkpoint after the best epoch so far; all ranks call it.

        Raises:
            Whatever kept the last one from being written.
        """
        # It must come to be, however long that takes: checkpoints after it will refer to it.
        self.settle()
        self.history.best_step = self.trainer.step
        self._write(epoch_s=0.0, is_best=True)

    def settle(self) -> None:
        """Waits until the checkpoints so far are published; all ranks call it."""
        self.writer.finish()
        collectives.barrier(name="settled")

    def _write(self, *, epoch_s: float, is_best: bool = False) -> None:
        started = time.monotonic()
        self._next = self._due_after(self.trainer.step)
        with self.progress.beating():
            contents = self._contents(epoch_s=epoch_s)
        target = folder.step_folder(self.directory, self.trainer.step, is_best=is_best)
        self.writer.start(target, contents, keep=self.keep, is_needed=is_best)
        self.history.num_checkpoints += 1
        self.history.blocked_s += time.monotonic() - started

    def write_final(self, target: Path) -> None:
        """Writes the last checkpoint and waits for it; rank 0 returns when it is published.

        Raises:
            NotWrittenError: the disk would not have it.
        """
        self.writer.finish()
        self.writer.start(target, self._contents(epoch_s=0.0), is_needed=True)
        self.writer.finish()

    def _note_given_up(self) -> None:
        if given_up := self.writer.take_given_up():
            self.history.num_checkpoints -= given_up
            self.history.num_given_up += given_up
            self.progress.say(f"the disk would not have a checkpoint; the next one is due at step {self._next:,}")

    def _contents(self, *, epoch_s: float) -> Contents:
        self._note_given_up()
        snapshot = self.trainer.snapshot()
        self.history.examples = self.progress.examples
        history, arrays = self.history.encode(epoch_s=epoch_s, seconds=self.seconds)
        position = self.source.position(self.progress.examples)
        return Contents(
            manifest=self.manifest.model_copy(
                update={"step": snapshot.step, "position": position, "best_step": self.history.best_step}
            ),
            snapshot=snapshot,
            batches=self.source.trained(),
            history=history,
            arrays=arrays,
        )
