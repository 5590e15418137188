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
from sangam.trainer_module.loop.early_stopping import StopDecision, judge, passes_of
from sangam.trainer_module.loop.events import Events
from sangam.trainer_module.loop.refit_shift import mean_predictions, without_shift
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
        # Else an earlier process has trained it, and written a checkpoint after it.
        if not run.history.report_of(epoch).is_over and _ends_with(run, checkpointer, epoch):
            break
    run.drop_sample()
    verdict, last_step = judge(job.ranker, run.history.points), run.trainer.step
    if verdict is not None and run.history.refit_from is None and not verdict.last_is_best:
        checkpointer.restore_best()
        if not verdict.best_point.is_end:  # Only a sample was scored.
            run.validate(verdict.best_epoch, "best")
    if verdict is not None and job.refits:
        _refit(run, checkpointer, verdict, last_step)
    scored = run.history.report_of(len(run.history.epochs) - 1 if verdict is None else verdict.best_epoch)
    run.calibrate(without_shift(run, scored.calibrations))
    # Save: the final checkpoint, scores that the exported model must reproduce, and the report.
    with progress.beating():
        checkpointer.write_final(Path(job.final_checkpoint))
        tables, exchange, of_ranks = run.trainer.statistics(), run.trainer.exchange_report(), by_rank(run)
        write_check(job, rank, run.trainer.predict)
        collectives.barrier(name="all_written")
    if rank == 0:
        write_report(run, tables, exchange, of_ranks)


def _refuse_missing_validation(job: TrainJob) -> None:
    if job.validation_files:
        return
    remedy = "declare data.splits.validation, data.validation or data.validation_days"
    if job.ranker.training.early_stopping is not None:
        raise UserError(f"training.early_stopping: there is no validation split (got no examples of it); {remedy}")
    for name, task in job.ranker.tasks.items():
        if isinstance(task, BinaryTask) and task.calibration is not None:
            raise UserError(
                f"tasks.{name}.calibration: there is no validation split to fit it on (got no examples of it); {remedy}"
            )


def _ends_with(run: Run, checkpointer: Checkpointer, epoch: int) -> bool:
    """Trains the rest of an epoch; returns whether training ends with it, or within it."""
    report = run.history.report_of(epoch)
    for _ in run.steps(epoch):  # Step.
        if run.is_due(epoch):
            report.is_cut = _ends_here(run, checkpointer, epoch, is_end=False)
        if not report.is_cut:  # A checkpoint is something to go on from.
            checkpointer.after_step()  # Save, if due.
    if report.is_cut:
        return True
    if run.job.validation_files:
        run.validate(epoch)  # Validate.
    return _ends_here(run, checkpointer, epoch, is_end=True)


def _ends_here(run: Run, checkpointer: Checkpointer, epoch: int, *, is_end: bool) -> bool:
    """Scores the model, and keeps it if it is the best so far; returns whether training ends early, or was the last."""
    if run.job.ranker.training.early_stopping is None:
        return False
    run.score(epoch, is_end=is_end)
    verdict = judge(run.job.ranker, run.history.points)
    assert verdict is not None
    _LOG.info("epoch=%d step=%d %s=%.5f", epoch, verdict.points[-1].steps, verdict.metric, verdict.values[-1])
    if verdict.reason is not None:
        best = (verdict.best_epoch, verdict.best_point.steps, verdict.metric, verdict.values[verdict.best])
        _LOG.info(
            "early stopping epoch=%d reason='%s' best_epoch=%d best_step=%d %s=%.5f", epoch, verdict.reason, *best
        )
        return True
    if verdict.last_is_best:
        checkpointer.write_best()  # Save the state that training may return to.
    return False


def _refit(run: Run, checkpointer: Checkpointer, verdict: StopDecision, last_step: int) -> None:
    """Trains the best model on the validation split: as often, and at the same rates, as on the train split.

    Steps are counted from `last_step`, not from the best point's, as they name checkpoints.
    """
    job, history = run.job, run.history
    of_epoch = history.reports[0].examples
    passes, first = passes_of(verdict.best_point, of_epoch), run.first_epoch
    if history.refit_from is None:
        history.means = mean_predictions(run, history.report_of(verdict.best_epoch).calibrations)
        first = len(history.reports)
        run.trainer.begin_schedule(step=last_step, pace=of_epoch / history.validated)
        run.source = run.source.then(job.validation_files, first)
        history.refit_from = first
    days = tuple(sorted({*run.manifest.days, *job.refit_days}))
    run.manifest = run.manifest.model_copy(update={"days": days})
    run.progress.expected = sum(report.examples for report in history.epochs) + round(sum(passes) * history.validated)
    _LOG.info("refit passes=%.2f days=%s", sum(passes), job.refit_days)
    for epoch in range(first, history.refit_from + len(passes)):
        _train_pass(run, checkpointer, epoch, part=passes[epoch - history.refit_from])


def _train_pass(run: Run, checkpointer: Checkpointer, epoch: int, *, part: float) -> None:
    """Trains the rest of a pass over the validation split, or of a part of it."""
    report, until = run.history.report_of(epoch), round(part * run.history.validated)
    if part < 1.0 and report.examples + report.left_out >= until:  # By an earlier process.
        return
    for _ in run.steps(epoch):
        report.is_cut = part < 1.0 and report.examples + report.left_out >= until
        checkpointer.after_step()
