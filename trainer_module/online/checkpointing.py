"""Checkpoints of an online training: the state after a whole segment, whose number is the input position."""

import logging
from pathlib import Path

from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint.manifest import Manifest
from sangam.trainer_module.checkpoint.writer import Contents, Writer
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.input.train_input import no_batches
from sangam.trainer_module.loop.history import History
from sangam.trainer_module.loop.trainer import Trainer

_LOG = logging.getLogger("sangam.trainer_module.online")


class Checkpoints:
    """Writes checkpoints in the background, one at a time."""

    def __init__(self, directory: Path, manifest: Manifest, *, rank: int, keep: int, written_step: int | None):
        """Takes the folder and the common settings of this training's checkpoints.

        Args:
            directory: folder of the checkpoints.
            manifest: manifest of the initial state of training.
            rank: this rank.
            keep: number of checkpoints kept.
            written_step: step of the checkpoint that training resumed from; None: training starts from its base.
        """
        self._directory, self._manifest, self._keep = directory, manifest, keep
        self._writer = Writer(rank)
        self._written_step = written_step

    def write(self, trainer: Trainer, history: History, *, segment: int) -> None:
        """Starts to write the state after a segment, once the previous write is done. All ranks together."""
        if trainer.step == self._written_step:
            return  # No new step: the segments had no rows to train on, and reading them again changes nothing.
        self._written_step = trainer.step
        contents = self._contents(trainer, history, segment)
        target = folder.step_folder(self._directory, trainer.step)
        self._writer.start(target, contents, keep=self._keep)

    def write_to(self, target: Path, trainer: Trainer, history: History, *, segment: int) -> None:
        """Writes the state to `target`, and waits for it. All ranks together."""
        if trainer.rank == 0:
            folder.remove(target)
        collectives.barrier(name="removed")
        self._writer.start(target, self._contents(trainer, history, segment), is_needed=True)
        self._writer.finish()
        collectives.barrier(name="written")

    def finish(self) -> None:
        """Waits for the write under way.

        Raises:
            The error of the write.
        """
        self._writer.finish()

    def _contents(self, trainer: Trainer, history: History, segment: int) -> Contents:
        self._writer.finish()
        snapshot = trainer.cut()
        encoded, arrays = history.encode(epoch_s=0.0, seconds=0.0)
        position = Position(epoch=segment)
        manifest = self._manifest.model_copy(update={"step": snapshot.step, "position": position})
        return Contents(manifest, snapshot, no_batches(), encoded, arrays)
