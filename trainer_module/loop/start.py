"""What a rank starts from: its job's last checkpoint, another training's, or nothing."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from schemas.contracts.training_job import TrainJob
from trainer_module import collectives
from trainer_module.checkpoint import folder, restore
from trainer_module.checkpoint.choice import agreed_base, agreed_newest, set_aside
from trainer_module.checkpoint.files import DamagedError, read_bytes
from trainer_module.checkpoint.layout import group_layouts, refuse_changed_tables, weight_layouts
from trainer_module.checkpoint.manifest import Manifest, Position, read_manifest
from trainer_module.checkpoint.warm_start import warm_start
from trainer_module.checkpoint.writer import HISTORY
from trainer_module.input.train_input import no_batches
from trainer_module.loop import history
from trainer_module.loop.history import History
from trainer_module.loop.progress import say
from trainer_module.loop.trainer import Trainer

_LOG = logging.getLogger("trainer_module.loop.start")


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


@dataclass(frozen=True)
class _Found:
    """What a checkpoint of this job says beside the trainer's state."""

    directory: Path
    manifest: Manifest
    history: History
    batches: NDArray[Any]


def take_up(job: TrainJob, trainer: Trainer) -> Start:
    """Brings a fresh trainer to where the job starts from; all ranks call it, after rank 0 has tidied up.

    A damaged checkpoint of this job is passed over, by all ranks alike, for the one before it.

    Raises:
        CheckpointError: when what it should start from is damaged or does not fit, or ranks see different ones.
    """
    directory = Path(job.checkpoint_dir)
    while (last := agreed_newest(directory, job.digest, rank=trainer.rank)) is not None:
        found, damage = _read(job, trainer, last)
        told = next(filter(None, collectives.texts(damage, name="checkpoint_damaged")), "")
        if found is not None and not told:
            return _resumed(job, trainer, found)
        if trainer.rank == 0:
            set_aside(last, told)
    if job.base_checkpoint:
        return _warm(job, trainer, Path(job.base_checkpoint))
    return Start(_manifest(job, trainer, ()), Position(), no_batches(), History())


def _read(job: TrainJob, trainer: Trainer, directory: Path) -> tuple[_Found | None, str]:
    """Brings a trainer to a checkpoint of this job; returns what it says beside, or why it is damaged.

    Rows go from the files into their stores, where there is room for them once: after a damaged checkpoint the trainer
    is between two states, until another one is restored.
    """
    try:
        held = read_manifest(directory)
        refuse_changed_tables(held.groups, group_layouts(job.ranker), source=str(directory))
        trainer.restore(restore.read_snapshot(directory, held, rank=trainer.rank, ranks=trainer.ranks))
        content = read_bytes(directory / HISTORY, held.files[HISTORY])
        so_far = history.decode(content, restore.read_history_arrays(directory, held))
        return _Found(directory, held, so_far, restore.read_batches(directory, held)), ""
    except DamagedError as error:
        return None, f"rank {trainer.rank}: {error}"


def _resumed(job: TrainJob, trainer: Trainer, found: _Found) -> Start:
    held, so_far = found.manifest, found.history
    so_far.resumed_from.append(held.step)
    aside = [path.name for path in folder.damaged(found.directory.parent)]
    if trainer.rank == 0 and set(aside) - set(so_far.passed_over):
        say(
            job.progress_file,
            f"a damaged checkpoint is kept aside: going on from step {held.step:,}, the one before it",
        )
    so_far.passed_over = sorted({*so_far.passed_over, *aside})
    _LOG.info("resumed step=%d epoch=%d from=%s", held.step, held.position.epoch, found.directory)
    manifest = _manifest(job, trainer, ()).model_copy(update={"days": held.days})
    return Start(manifest, held.position, found.batches, so_far)


def _warm(job: TrainJob, trainer: Trainer, directory: Path) -> Start:
    held = agreed_base(directory)
    found = warm_start(
        directory, held, trainer.ranker, rank=trainer.rank, ranks=trainer.ranks, changed=job.changed_features
    )
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
