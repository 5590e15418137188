"""One rank: `python -m trainer_module JOB_FILE PARENT_PID SERVICE ATTEMPT`, started by `launch` or `host`."""

import gc
import json
import logging
import sys
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

import tensorflow as tf

from schemas.contracts.exit_codes import ExitCode
from schemas.contracts.training_job import TrainJob, read_job
from schemas.derived.sizes import dense_parts
from schemas.errors import UserError
from trainer_module import collectives
from trainer_module.checkpoint import folder
from trainer_module.checkpoint.manifest import read_manifest
from trainer_module.checkpoint.restore import read_snapshot
from trainer_module.checkpoint.writer import Writer
from trainer_module.input.batch import Batch
from trainer_module.input.train_input import TrainInput
from trainer_module.launch.processes import end_with_parent
from trainer_module.loop.check import write_check
from trainer_module.loop.checkpointing import Schedule
from trainer_module.loop.early_stopping import Verdict, judge
from trainer_module.loop.precision import settle
from trainer_module.loop.progress import Progress
from trainer_module.loop.report import write_report
from trainer_module.loop.start import Start, take_up
from trainer_module.loop.trainer import EpochReport, NotFiniteError, Trainer
from trainer_module.ranker import Ranker

_LOG = logging.getLogger("trainer_module.rank")
_MINUTES_A_DAY = 24 * 60


def main(job_file: str, parent_pid: str, service: str, attempt: str) -> int:
    """Trains as one rank; returns the exit code."""
    end_with_parent(int(parent_pid))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    job = read_job(Path(job_file))
    threads = job.ranker.cluster.threads_per_rank
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Collectives block a thread each while they wait for the other ranks.
    tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))
    rank, ranks = collectives.start()
    _take_own_gpu()
    _LOG.info("start rank=%d ranks=%d spec_digest=%s", rank, ranks, job.spec_digest)
    try:
        train(job, service, attempt, rank=rank, ranks=ranks)
    except (UserError, NotFiniteError) as error:
        job.mistake_file(rank).write_text(str(error))
        _LOG.error("%s", error)
        return ExitCode.MISTAKE
    collectives.stop()
    return ExitCode.DONE


def _take_own_gpu() -> None:
    """Leaves the machine's other GPUs to its other ranks."""
    if gpus := tf.config.list_physical_devices("GPU"):
        tf.config.set_visible_devices(gpus[collectives.local_rank() % len(gpus)], "GPU")


def train(job: TrainJob, service: str, attempt: str, *, rank: int, ranks: int) -> None:
    """Trains one rank's part, from where the job was left, and leaves the final checkpoint and the report behind."""
    progress = Progress(job, rank)
    with progress.beating():
        declared, precision = settle(job.ranker)
        trainer = Trainer(Ranker(declared), rank=rank, ranks=ranks, last_minute=_last_minute(job))
        if rank == 0:
            _tidy(job)
            parts = dense_parts(job.ranker)
            _LOG.info("dense_parameters=%d by_part=%s", trainer.ranker.weights.size, json.dumps(parts))
        collectives.barrier(name="tidied")
        start = take_up(job, trainer)
    schedule = _schedule(job, service, attempt, trainer, start, progress)
    history = start.history
    if precision.note:
        history.note(precision.note)
    progress.resume(step=history.num_steps, examples=history.examples)
    del trainer  # Only one model's rows are held at a time.
    verdict = _train_epochs(job, schedule, start.position.epoch)
    if job.refit_days and verdict is not None:
        _refit(job, schedule, verdict, start.position.epoch)
    with progress.beating():
        if verdict is not None and not verdict.last_is_best and not job.refit_days:
            _restore_best(job, schedule)
        trainer = schedule.trainer
        schedule.write_final(Path(job.final_checkpoint))
        tables = trainer.statistics()
        write_check(job, trainer)
        collectives.barrier(name="all_written")
    if rank == 0:
        days, seconds = schedule.manifest.days, history.seconds + schedule.seconds
        write_report(job, trainer, history, days=days, tables=tables, seconds=seconds)


def _train_epochs(job: TrainJob, schedule: Schedule, first: int) -> Verdict | None:
    """Trains from an epoch on until training ends; returns what early stopping says, None where none is declared."""
    history, verdict = schedule.history, None
    if history.refit_from is not None:
        return judge(job.ranker, [report.validation for report in history.epochs])
    for epoch in range(first, job.ranker.training.epochs):
        if epoch == len(history.reports):
            history.reports.append(EpochReport())
        # A training that is taken up may have ended this epoch, and written its checkpoint.
        was_over = bool(history.reports[epoch].validation)
        if not was_over:
            _train_epoch(schedule, epoch)
            _validate(job, schedule, epoch)
        verdict = judge(job.ranker, [report.validation for report in history.reports])
        if verdict is None:
            continue
        if verdict.reason is not None:
            told = (epoch, verdict.reason, verdict.best_epoch, verdict.metric, verdict.values[verdict.best_epoch])
            _LOG.info("early stopping epoch=%d reason='%s' best_epoch=%d %s=%.5f", *told)
            break
        if verdict.last_is_best and not was_over:
            with schedule.progress.beating():
                schedule.write_best()
    return verdict


def _train_epoch(schedule: Schedule, epoch: int) -> None:
    trainer, progress, report = schedule.trainer, schedule.progress, schedule.history.reports[epoch]
    schedule.begin_epoch()
    batches: Iterable[Batch] | None = schedule.source.batches(epoch, progress.examples)
    while batches is not None:
        trainer.train_epoch(batches, progress, schedule.after_step, report)
        batches = schedule.end_epoch()
    _LOG.info("epoch=%d steps=%d examples=%d", epoch, len(report.step_losses), report.examples)


def _validate(job: TrainJob, schedule: Schedule, epoch: int) -> None:
    if job.validation_files:
        results = schedule.validate(epoch)
        schedule.history.reports[epoch].validation = results
        schedule.progress.validated(epoch, results)


def _refit(job: TrainJob, schedule: Schedule, verdict: Verdict, first: int) -> None:
    """Trains the best epoch's model on the validation split: as often, and at the same rates, as on the train split.

    Args:
        job: says the files.
        schedule: of checkpoints.
        verdict: of early stopping.
        first: epoch to go on with if the refit had begun before; its passes are counted on from the epochs.
    """
    history = schedule.history
    if history.refit_from is None:
        first, step = len(history.reports), schedule.trainer.step
        if not verdict.last_is_best:
            with schedule.progress.beating():
                _restore_best(job, schedule)
        schedule.trainer.begin_schedule(step=step, pace=history.reports[0].examples / history.validated)
        schedule.source = schedule.source.then(job.validation_files, first)
        history.refit_from = first
    schedule.manifest = schedule.manifest.model_copy(
        update={"days": tuple(sorted({*schedule.manifest.days, *job.refit_days}))}
    )
    passes = verdict.best_epoch + 1
    _LOG.info("refit passes=%d days=%s", passes, job.refit_days)
    for epoch in range(first, history.refit_from + passes):
        if epoch == len(history.reports):
            history.reports.append(EpochReport())
        _train_epoch(schedule, epoch)


def _restore_best(job: TrainJob, schedule: Schedule) -> None:
    """Puts a trainer with the best epoch's weights and rows in the place of the one that has trained."""
    schedule.settle()
    rank, ranks, step = schedule.trainer.rank, schedule.trainer.ranks, schedule.history.best_step
    declared = schedule.trainer.ranker.declared
    assert step is not None
    del schedule.trainer
    gc.collect()
    directory = folder.step_folder(Path(job.checkpoint_dir), step, is_best=True)
    trainer = Trainer(Ranker(declared), rank=rank, ranks=ranks, last_minute=_last_minute(job))
    trainer.restore(read_snapshot(directory, read_manifest(directory), rank=rank, ranks=ranks))
    schedule.trainer = trainer
    _LOG.info("restored best epoch's step=%d from=%s", step, directory)


def _tidy(job: TrainJob) -> None:
    for path in folder.clear(Path(job.checkpoint_dir), job.digest):
        _LOG.info("removed checkpoint=%s of another job", path)
    # Also what is whole: it is of an earlier training, or nobody would train.
    folder.remove(Path(job.final_checkpoint))
    for report in (job.report_file, job.export_file):
        report.unlink(missing_ok=True)


def _last_minute(job: TrainJob) -> int | None:
    """Returns the end of the last day, minutes since 1970: events that claim to be later have a wrong clock."""
    if not job.days:
        return None
    after = date.fromisoformat(max(job.days + job.refit_days)) + timedelta(days=1)
    return (after - date(1970, 1, 1)).days * _MINUTES_A_DAY


def _schedule(
    job: TrainJob, service: str, attempt: str, trainer: Trainer, start: Start, progress: Progress
) -> Schedule:
    source = TrainInput(
        job,
        job.train_files if start.history.refit_from is None else job.validation_files,
        rank=trainer.rank,
        ranks=trainer.ranks,
        service=service,
        attempt=attempt,
        start=start.position,
        trained=start.trained,
    )
    declared = job.ranker.training.checkpoint
    return Schedule(
        trainer=trainer,
        source=source,
        history=start.history,
        progress=progress,
        manifest=start.manifest,
        directory=Path(job.checkpoint_dir),
        every_steps=declared.every_steps,
        keep=declared.keep,
        writer=Writer(trainer.rank),
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
