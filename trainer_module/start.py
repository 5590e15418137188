"""What a rank starts from: its job's last checkpoint, another training's, or nothing."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trainer_module import history
from trainer_module.checkpoint import folder, restore
from trainer_module.checkpoint.files import read_bytes
from trainer_module.checkpoint.layout import group_layouts, refuse_changed_tables, weight_layouts
from trainer_module.checkpoint.manifest import Manifest, Position, read_manifest
from trainer_module.checkpoint.warm_start import warm_start
from trainer_module.checkpoint.writer import HISTORY
from trainer_module.history import History
from trainer_module.job import TrainJob
from trainer_module.loop import Trainer
from trainer_module.train_input import no_batches

_LOG = logging.getLogger("trainer_module.start")


@dataclass(frozen=True)
class Start:
    """Where training begins.

    Attributes:
        manifest: what the checkpoints of this training have in common.
        position: of the input.
        trained: batches of the pool done in that epoch: [n, 2] int64.
        history: of the training so far.
    """

    manifest: Manifest
    position: Position
    trained: NDArray[Any]
    history: History


def take_up(job: TrainJob, trainer: Trainer) -> Start:
    """Brings a fresh trainer to where the job starts from; all ranks call it, after rank 0 has tidied up.

    Raises:
        CheckpointError: when what it should start from is damaged or does not fit.
    """
    last = folder.newest(Path(job.checkpoint_dir), job.digest)
    if last is not None:
        return _resumed(job, trainer, last)
    if job.base_checkpoint:
        return _warm(job, trainer, Path(job.base_checkpoint))
    return Start(_manifest(job, trainer, ()), Position(), no_batches(), History())


def _resumed(job: TrainJob, trainer: Trainer, directory: Path) -> Start:
    held = read_manifest(directory)
    refuse_changed_tables(held.groups, group_layouts(job.ranker), source=str(directory))
    trainer.restore(restore.read_snapshot(directory, held, rank=trainer.rank, ranks=trainer.ranks))
    content = read_bytes(directory / HISTORY, held.files[HISTORY])
    so_far = history.decode(content, restore.read_history_arrays(directory, held))
    so_far.resumed_from.append(held.step)
    _LOG.info("resumed step=%d epoch=%d from=%s", held.step, held.position.epoch, directory)
    manifest = _manifest(job, trainer, ()).model_copy(update={"days": held.days})
    return Start(manifest, held.position, restore.read_batches(directory, held), so_far)


def _warm(job: TrainJob, trainer: Trainer, directory: Path) -> Start:
    held = read_manifest(directory)
    found = warm_start(directory, held, trainer.ranker, rank=trainer.rank, ranks=trainer.ranks)
    trainer.restore(found.snapshot)
    told = {"base": str(directory), "base_step": held.step, "base_days": list(held.days)}
    told |= {"loaded": list(found.loaded), "new": list(found.new), "dropped": list(found.dropped)}
    _LOG.info("warm start base=%s new=%s dropped=%s", directory, found.new, found.dropped)
    return Start(_manifest(job, trainer, held.days), Position(), no_batches(), History(warm_start=told))


def _manifest(job: TrainJob, trainer: Trainer, base_days: tuple[str, ...]) -> Manifest:
    return Manifest(
        step=trainer.step,
        ranks=trainer.ranks,
        spec_digest=job.spec_digest,
        job_digest=job.digest,
        seed=job.ranker.training.seed,
        dense_precision=trainer.ranker.declared.training.dense_precision,
        days=tuple(sorted({*base_days, *job.days})),
        position=Position(),
        groups=group_layouts(job.ranker),
        weights=weight_layouts(trainer.ranker.weights.weights),
    )
