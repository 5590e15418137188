"""Starts a rank from its job's last checkpoint, another training's, or initial weights."""

import functools
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, assert_never

from numpy.typing import NDArray

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.sizes import dense_parts
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.sync import Async, InStep, Shadow, Stale
from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint import folder, restore
from sangam.trainer_module.checkpoint.choice import agreed_base, agreed_newest, set_aside
from sangam.trainer_module.checkpoint.files import DamagedError, read_bytes
from sangam.trainer_module.checkpoint.layout import group_layouts, refuse_changed_tables, weight_layouts
from sangam.trainer_module.checkpoint.manifest import Manifest, read_manifest
from sangam.trainer_module.checkpoint.warm_start import warm_start
from sangam.trainer_module.checkpoint.writer import HISTORY
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.input.train_input import TrainInput, no_batches
from sangam.trainer_module.loop import history
from sangam.trainer_module.loop.asynchronous import AsyncTrainer
from sangam.trainer_module.loop.history import History
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.loop.order_choice import choose, ordered
from sangam.trainer_module.loop.precision import settle
from sangam.trainer_module.loop.run import Run
from sangam.trainer_module.loop.shadow import ShadowTrainer
from sangam.trainer_module.loop.stale import StaleTrainer
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.loop.unseen import settle as settle_unseen
from sangam.trainer_module.parameter_server.client import Servers
from sangam.trainer_module.placement import HOST_ALONE, Placement, notes
from sangam.trainer_module.progress import Progress, say
from sangam.trainer_module.ranker import Ranker

_LOG = logging.getLogger("sangam.trainer_module.loop.start")
_MINUTES_A_DAY = 24 * 60


@dataclass(frozen=True)
class Start:
    """The starting point of training.

    Attributes:
        manifest: fields that the checkpoints of this training share.
        position: position of the input.
        trained: the pool's batches trained on in that epoch: [n, 2] int64.
        history: the training so far.
    """

    manifest: Manifest
    position: Position
    trained: NDArray[Any]
    history: History


@dataclass(frozen=True)
class _Loaded:
    """A checkpoint of this job, without the trainer's state."""

    directory: Path
    manifest: Manifest
    history: History
    batches: NDArray[Any]


def load(
    job: TrainJob,
    service: str,
    attempt: str,
    progress: Progress,
    servers: Servers | None,
    *,
    rank: int,
    ranks: int,
    placement: Placement = HOST_ALONE,
) -> Run:
    """Returns a job ready to train or resume; all ranks call it. See `training.train`.

    Raises:
        CheckpointError: the initial checkpoint is damaged or does not fit, or the ranks see different ones.
    """
    trainer, start, trainer_of = load_trainer(
        job, servers, rank=rank, ranks=ranks, is_dealt=bool(service), placement=placement
    )
    history = start.history
    if job.ranker.training.order == "auto" and history.order is None:
        chosen = choose(job, trainer, trainer_of, progress)
        history.order = chosen.order
        history.note(chosen.note)
    progress.resume(step=history.num_steps, examples=history.examples)
    source = TrainInput(
        ordered(job, history.order),
        job.train_files if history.refit_from is None else job.validation_files,
        rank=rank,
        ranks=ranks,
        service=service,
        attempt=attempt,
        start=start.position,
        trained=start.trained,
    )
    return Run(job, trainer, source, history, progress, start.manifest, trainer_of, start.position.epoch)


def load_trainer(
    job: TrainJob,
    servers: Servers | None,
    *,
    rank: int,
    ranks: int,
    is_dealt: bool = False,
    placement: Placement = HOST_ALONE,
) -> tuple[Trainer, Start, Callable[..., Trainer]]:
    """Returns a trainer ready to train, its starting point, and a factory of trainers like it; see `load`."""
    spec, precision = settle(job.ranker, placement)
    trainer_of = _trainer_of(spec, servers, is_dealt=is_dealt, is_online=job.stream is not None)
    unseen = settle_unseen(job, rank=rank)
    ranker = Ranker(spec, placement=placement, unseen=unseen.rates)
    trainer: Trainer = trainer_of(ranker, rank=rank, ranks=ranks, last_minute=_last_minute(job))
    if rank == 0:
        _tidy(job)
        parts = dense_parts(job.ranker)
        _LOG.info("dense_parameters=%d by_part=%s", trainer.ranker.weights.size, json.dumps(parts))
    collectives.barrier(name="tidied")
    start = _take_up(job, trainer)
    trainer.ranker.calibrations = start.manifest.calibrations
    trainer.begin()
    for note in filter(None, [precision.note, unseen.note, *notes(job.ranker, placement)]):
        start.history.note(note)
    return trainer, start, trainer_of


def _trainer_of(
    spec: RankerSpec, servers: Servers | None, *, is_dealt: bool, is_online: bool
) -> Callable[..., Trainer]:
    """Returns a factory of trainers for the spec's mode."""
    sync = spec.training.sync
    if servers is None:
        return functools.partial(InStepTrainer, track_changes=is_online, in_proportion=is_online)
    assert not isinstance(sync, InStep), "servers hold the rows of other modes"
    match sync:
        case Stale():
            return functools.partial(StaleTrainer, servers=servers)
        case Shadow():
            return functools.partial(ShadowTrainer, servers=servers, is_dealt=is_dealt)
        case Async():
            return functools.partial(AsyncTrainer, servers=servers, is_dealt=is_dealt)
        case _:
            assert_never(sync)


def _last_minute(job: TrainJob) -> int | None:
    """Returns the end of the last day, in minutes since 1970: later event times are errors."""
    if not job.days:
        return None
    after = date.fromisoformat(max(job.days + job.refit_days)) + timedelta(days=1)
    return (after - date(1970, 1, 1)).days * _MINUTES_A_DAY


def _tidy(job: TrainJob) -> None:
    for path in folder.clear(Path(job.checkpoint_dir), job.digest):
        _LOG.info("removed checkpoint=%s of another job", path)
    # Even if complete: it is from an earlier training, or there would be nothing to train.
    folder.remove(Path(job.final_checkpoint))
    for report in (job.report_file, job.export_file):
        report.unlink(missing_ok=True)


def _take_up(job: TrainJob, trainer: Trainer) -> Start:
    """Restores a new trainer to the job's starting point; all ranks call it, after rank 0 has cleaned up.

    If a checkpoint of this job is damaged, all ranks use the one before it.

    Raises:
        CheckpointError: the initial checkpoint is damaged or does not fit, or the ranks see different ones.
    """
    directory = Path(job.checkpoint_dir)
    while (last := agreed_newest(directory, job.digest, rank=trainer.rank)) is not None:
        loaded, damage = _read(job, trainer, last)
        damage = next(filter(None, collectives.texts(damage, name="checkpoint_damaged")), "")
        if loaded is not None and not damage:
            return _resumed(job, trainer, loaded)
        if trainer.rank == 0:
            set_aside(last, damage)
    if job.base_checkpoint:
        return _warm(job, trainer, Path(job.base_checkpoint))
    return Start(_manifest(job, trainer, ()), Position(), no_batches(), History())


def _read(job: TrainJob, trainer: Trainer, directory: Path) -> tuple[_Loaded | None, str]:
    """Restores a trainer from a checkpoint of this job; returns the rest of it, or why it is damaged.

    Rows are read from the files directly into their stores, as memory holds only one copy: after a damaged checkpoint,
    the trainer is in an undefined state until another one is restored.
    """
    try:
        manifest = read_manifest(directory)
        refuse_changed_tables(manifest.groups, group_layouts(job.ranker), source=str(directory))
        snapshot = restore.read_snapshot(directory, manifest, rank=trainer.rank, ranks=trainer.ranks)
        trainer.restore(snapshot, directory)
        content = read_bytes(directory / HISTORY, manifest.files[HISTORY])
        so_far = history.decode(content, restore.read_history_arrays(directory, manifest))
        return _Loaded(directory, manifest, so_far, restore.read_batches(directory, manifest)), ""
    except DamagedError as error:
        return None, f"rank {trainer.rank}: {error}"


def _resumed(job: TrainJob, trainer: Trainer, loaded: _Loaded) -> Start:
    before, so_far = loaded.manifest, loaded.history
    so_far.resumed_from.append(before.step)
    aside = [path.name for path in folder.damaged(loaded.directory.parent)]
    if trainer.rank == 0 and set(aside) - set(so_far.passed_over):
        say(
            job.progress_file,
            f"a damaged checkpoint was set aside: resuming from the one before it, step {before.step:,}",
        )
    so_far.passed_over = sorted({*so_far.passed_over, *aside})
    _LOG.info("resumed step=%d epoch=%d from=%s", before.step, before.position.epoch, loaded.directory)
    kept = {"days": before.days, "calibrations": before.calibrations}
    manifest = _manifest(job, trainer, ()).model_copy(update=kept)
    return Start(manifest, before.position, loaded.batches, so_far)


def _warm(job: TrainJob, trainer: Trainer, directory: Path) -> Start:
    base = agreed_base(directory)
    warm = warm_start(
        directory, base, trainer.ranker, rank=trainer.rank, ranks=trainer.ranks, changed=job.changed_features
    )
    trainer.restore(warm.snapshot, directory, is_base=True)
    report = {"base": str(directory), "base_step": base.step, "base_days": list(base.days)}
    report |= {"loaded": list(warm.loaded), "new": list(warm.new), "dropped": list(warm.dropped)}
    _LOG.info("warm start base=%s new=%s dropped=%s", directory, warm.new, warm.dropped)
    manifest = _manifest(job, trainer, base.days)
    if job.stream is not None:
        # Model servers keep the base's graph, which deltas do not change.
        kept = {task: fitted for task, fitted in base.calibrations.items() if task in job.ranker.tasks}
        manifest = manifest.model_copy(update={"calibrations": kept})
    return Start(manifest, Position(), no_batches(), History(warm_start=report))


def _manifest(job: TrainJob, trainer: Trainer, base_days: tuple[str, ...]) -> Manifest:
    return Manifest(
        step=trainer.step,
        ranks=trainer.ranks,
        servers=job.ranker.num_parameter_servers,
        spec_digest=job.spec_digest,
        job_digest=job.digest,
        seed=job.ranker.training.seed,
        dense_precision=trainer.ranker.spec.training.dense_precision,
        days=tuple(sorted({*base_days, *job.days})),
        position=Position(),
        groups=group_layouts(job.ranker),
        weights=weight_layouts(trainer.ranker.weights.weights),
    )
