"""Trains on one rank: load, step, validate, save, stop. Read this after `ranker`."""

import logging
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.schemas.spec.tasks import BinaryTask
from sangam.trainer_module import collectives
from sangam.trainer_module.check_scores import write_check
from sangam.trainer_module.checkpoint.writer import Writer
from sangam.trainer_module.loop.checkpointing import Checkpointer
from sangam.trainer_module.loop.early_stopping import StopDecision, judge
from sangam.trainer_module.loop.events import Events
from sangam.trainer_module.loop.report import by_rank, write_report
from sangam.trainer_module.loop.run import Run
from sangam.trainer_module.loop.start import load
from sangam.trainer_module.monitoring.training import Metrics
from sangam.trainer_module.parameter_server.client import Servers
from sangam.trainer_module.placement import HOST_ALONE, Placement
from sangam.trainer_module.progress import Progress

_LOG = logging.getLogger("sangam.trainer_module.rank")


def train(
    job: TrainJob,
    service: str,
    attempt: str,
    *,
    rank: int,
    ranks: int,
    servers: Servers | None = None,
    metrics: Metrics | None = None,
    placement: Placement = HOST_ALONE,
) -> None:
    """Trains a job to its end, from its last checkpoint if any; writes the final checkpoint and the report.

    All ranks call it together.

    Args:
        job: the training job, with its files.
        service: host:port of the tf.data service; empty: every rank reads the files itself.
        attempt: name of this attempt.
        rank: this rank.
        ranks: number of ranks.
        servers: the servers that hold the rows; None: the ranks hold them.
        metrics: this rank's Prometheus metrics; None: off.
        placement: this process's devices.
    """
    progress = Progress(job, rank, Events(job) if rank == 0 else None, metrics=metrics)
    if servers is not None:
        servers.while_waiting = progress.beat
    _refuse_missing_validation(job)
    with progress.beating():  # Load: this job's last checkpoint, else its base, else start from nothing.
        run = load(job, service, attempt, progress, servers, rank=rank, ranks=ranks, placement=placement)
    checkpointer = Checkpointer(run, job.ranker.training.checkpoint, Path(job.checkpoint_dir), Writer(rank))
    for epoch in run.epochs_left:
        was_validated = bool(run.history.report_of(epoch).validation)  # By an earlier process, with its checkpoint.
        if not was_validated:
            _train_epoch(run, checkpointer, epoch)
            if job.validation_files:
                run.validate(epoch)  # Validate.
        verdict = judge(job.ranker, run.history.validations)
        if verdict is None:
            continue
        if verdict.reason is not None:  # Stop early.
            _log_stop(epoch, verdict)
            break
        if verdict.last_is_best and not was_validated:
            checkpointer.write_best()  # Save the state that training may return to.
    verdict = judge(job.ranker, run.history.validations)
    if verdict is not None and job.refit_days:
        _refit(run, checkpointer, verdict)
    elif verdict is not None and not verdict.last_is_best:
        checkpointer.restore_best()
    run.calibrate(len(run.history.epochs) - 1 if verdict is None else verdict.best_epoch)
    # Save: the final checkpoint, scores that the exported model must reproduce, and the report.
    with progress.beating():
        checkpointer.write_final(Path(job.final_checkpoint))
        tables, exchange, of_ranks = run.trainer.statistics(), run.trainer.exchange_report(), by_rank(run)
        write_check(job, rank, run.trainer.predict)
        collectives.barrier(name="all_written")
    if rank == 0:
        write_report(run, tables, exchange, of_ranks)


def _refuse_missing_validation(job: TrainJob) -> None:
    for name, task in job.ranker.tasks.items():
        if isinstance(task, BinaryTask) and task.calibration is not None and not job.validation_files:
            raise UserError(
                f"tasks.{name}.calibration: there is no validation split to fit it on (got no examples of it); "
                "declare data.splits.validation or data.validation_days"
            )


def _train_epoch(run: Run, checkpointer: Checkpointer, epoch: int) -> None:
    for _ in run.steps(epoch):  # Step.
        checkpointer.after_step()  # Save, if due.


def _log_stop(epoch: int, verdict: StopDecision) -> None:
    best = verdict.values[verdict.best_epoch]
    values = (epoch, verdict.reason, verdict.best_epoch, verdict.metric, best)
    _LOG.info("early stopping epoch=%d reason='%s' best_epoch=%d %s=%.5f", *values)


def _refit(run: Run, checkpointer: Checkpointer, verdict: StopDecision) -> None:
    """Trains the best epoch's model on the validation split: as often, and at the same rates, as on the train split."""
    job, history, passes = run.job, run.history, verdict.best_epoch + 1
    first = run.first_epoch
    if history.refit_from is None:
        first, step = len(history.reports), run.trainer.step
        if not verdict.last_is_best:
            checkpointer.restore_best()
        run.trainer.begin_schedule(step=step, pace=history.reports[0].examples / history.validated)
        run.source = run.source.then(job.validation_files, first)
        history.refit_from = first
    days = tuple(sorted({*run.manifest.days, *job.refit_days}))
    run.manifest = run.manifest.model_copy(update={"days": days})
    run.progress.expected = sum(report.examples for report in history.epochs) + passes * history.validated
    _LOG.info("refit passes=%d days=%s", passes, job.refit_days)
    for epoch in range(first, history.refit_from + passes):
        _train_epoch(run, checkpointer, epoch)
