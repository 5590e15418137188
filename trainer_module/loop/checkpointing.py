"""When training writes checkpoints, and their content besides weights and rows."""

import gc
import logging
import time
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from sangam.schemas.spec.training import Checkpoint
from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_snapshot
from sangam.trainer_module.checkpoint.writer import Contents, Writer
from sangam.trainer_module.loop.run import Run
from sangam.trainer_module.ranker import Ranker

_LOG = logging.getLogger("sangam.trainer_module.rank")


@dataclass
class Checkpointer:
    """Writes a checkpoint every `every_steps` steps, one after each epoch that is the best so far, and one at the end.

    Attributes:
        run: the run whose state is written.
        settings: interval, and number of recent checkpoints kept.
        directory: folder of all checkpoints but the final one.
        writer: this rank's writer.
    """

    run: Run
    settings: Checkpoint
    directory: Path
    writer: Writer

    def __post_init__(self) -> None:
        self._plan_next()

    def _plan_next(self) -> None:
        every = self.settings.every_steps
        self._next_step = self.run.trainer.next_pause = (self.run.trainer.step // every + 1) * every

    def after_step(self) -> None:
        """Writes a checkpoint if one is due; all ranks call it after every step.

        Raises:
            The error of the previous write, except for a disk that failed until the deadline.
        """
        self.writer.check()
        self._note_given_up()
        if self.run.trainer.step < self._next_step or not self.run.trainer.may_save:
            return
        # Checked only when a checkpoint is due. If the disk is slower than training, it waits for a later step, on all
        # ranks alike: rows that change meanwhile are held twice, and there is never a third.
        is_writing = tf.constant(int(self.writer.is_writing))
        if int(collectives.allreduce_sum(is_writing, name="checkpoint_busy")) > 0:
            return
        self._write(is_best=False)

    def write_best(self) -> None:
        """Writes a checkpoint after the best epoch so far; all ranks call it.

        Raises:
            The error of the previous write.
        """
        with self.run.progress.beating():
            # Later checkpoints refer to this one: wait until it is written.
            self._settle()
            self.run.history.best_step = self.run.trainer.step
            self._write(is_best=True)

    def restore_best(self) -> None:
        """Replaces the trainer by one in the state of the best epoch; all ranks call it."""
        run, old = self.run, self.run.trainer
        with run.progress.beating():
            self._settle()
            step, ranker = run.history.best_step, Ranker(old.ranker.spec, placement=old.ranker.placement)
            rank, ranks, last_minute = old.rank, old.ranks, old.last_minute
            assert step is not None
            old.close()
            # Memory may not hold the rows of two trainers.
            del run.trainer, old
            gc.collect()
            directory = folder.step_folder(self.directory, step, is_best=True)
            run.trainer = run.trainer_of(ranker, rank=rank, ranks=ranks, last_minute=last_minute)
            run.trainer.restore(read_snapshot(directory, read_manifest(directory), rank=rank, ranks=ranks), directory)
            run.trainer.begin()
            run.trainer.next_pause = self._next_step
        _LOG.info("restored best epoch's step=%d from=%s", step, directory)

    def write_final(self, target: Path) -> None:
        """Writes the last checkpoint and waits for it; rank 0 returns when it is published.

        Raises:
            NotWrittenError: the disk failed until the deadline.
        """
        self.writer.finish()
        contents = self._contents()
        self.run.trainer.save_rows(target)
        self.run.progress.metrics.began_checkpoint()
        self.writer.start(target, contents, is_needed=True)
        self.writer.finish()

    def _settle(self) -> None:
        """Waits until all checkpoints so far are published; all ranks call it."""
        self.writer.finish()
        collectives.barrier(name="settled")

    def _write(self, *, is_best: bool) -> None:
        run, started = self.run, time.monotonic()
        self._plan_next()
        with run.progress.beating():
            contents = self._contents()
            target = folder.step_folder(self.directory, run.trainer.step, is_best=is_best)
            run.trainer.save_rows(target)
        self.writer.start(target, contents, keep=self.settings.keep, is_needed=is_best)
        run.history.num_checkpoints += 1
        blocked_s = time.monotonic() - started
        run.history.blocked_s += blocked_s
        run.progress.metrics.began_checkpoint()
        run.progress.metrics.stood_still("checkpoint", blocked_s)

    def _note_given_up(self) -> None:
        if given_up := self.writer.take_given_up():
            self.run.history.num_checkpoints -= given_up
            self.run.history.num_given_up += given_up
            self.run.progress.metrics.gave_up_checkpoints(given_up)
            self.run.progress.say(
                f"a checkpoint could not be written to disk; the next one is due at step {self._next_step:,}"
            )

    def _contents(self) -> Contents:
        run = self.run
        self._note_given_up()
        snapshot = run.trainer.cut()  # Nothing is being written.
        run.share()
        run.history.examples = run.progress.examples
        history, arrays = run.history.encode(epoch_s=run.epoch_s, seconds=run.seconds)
        position = run.source.position(run.progress.examples)
        return Contents(
            manifest=run.manifest.model_copy(
                update={"step": snapshot.step, "position": position, "best_step": run.history.best_step}
            ),
            snapshot=snapshot,
            batches=run.source.trained(),
            history=history,
            arrays=arrays,
        )
