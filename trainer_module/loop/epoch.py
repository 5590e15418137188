"""One epoch of training: every batch once, and the ranks' work between steps."""

import time
from collections.abc import Iterable, Iterator

import tensorflow as tf

from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.history import EpochReport
from sangam.trainer_module.loop.step import StepResult
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.progress import Progress


class NotFiniteError(RuntimeError):
    """Losses or gradients were NaN or infinite too many steps in a row."""


def train_epoch(
    trainer: Trainer, batches: Iterable[Batch], progress: Progress, report: EpochReport
) -> Iterator[EpochReport]:
    """Trains until no rank has a batch left; yields the report after every step. All ranks together.

    A rank that has run out of batches continues with empty ones; every example counts once and equally. After a step
    whose receiver sets the report's `is_cut`, on all ranks, no other follows.

    Args:
        trainer: updated.
        batches: this rank's batches.
        progress: counts every step.
        report: this epoch's report; may contain steps from before an interruption.

    Raises:
        NotFiniteError: on all ranks in the same step.
    """
    started = time.monotonic()
    for each in train_batches(trainer, batches, progress, report):
        yield each
        if report.is_cut:
            break
    _add_eviction(report, trainer.evict(progress), progress)
    trainer.share(report)
    report.seconds += time.monotonic() - started
    waits_s = tf.constant([report.input_wait_s, report.rank_wait_s or 0.0], tf.float64)
    input_s, rank_s = (collectives.allreduce_sum(waits_s, name="waits") / trainer.ranks).numpy().tolist()
    report.input_wait_s = input_s
    report.rank_wait_s = None if report.rank_wait_s is None else rank_s


def train_batches(
    trainer: Trainer, batches: Iterable[Batch], progress: Progress, report: EpochReport
) -> Iterator[EpochReport]:
    """Like `train_epoch`, without the end of an epoch: rows are removed only every `evict_every_steps`."""
    share, started = trainer.updates_a_step / trainer.ranks, time.monotonic()
    for result in _results(trainer.steps(_timed(batches, report, progress)), report, progress):
        num_examples, losses = int(result.count), result.losses_T.numpy().tolist()
        if num_examples == 0:  # Other ranks train on.
            progress.beat()
            yield report
            continue
        refused = trainer.take_refused()
        if bool(result.is_finite):
            trainer.skipped_in_a_row = trainer.skipped_in_a_row + refused if refused else 0
            report.skipped += refused
            if refused:
                _refuse_too_many_skipped(trainer, losses)
            report.step_examples.append(num_examples)
            report.step_losses.append(losses)
            _add_eviction(report, trainer.evict_if_due(progress), progress)
        else:
            report.skipped += 1
            report.left_out += num_examples
            trainer.skipped_in_a_row += 1
            _refuse_too_many_skipped(trainer, losses)
        progress.stepped(num_examples, losses)
        progress.metrics.stepped(
            examples=num_examples * share,
            losses=losses,
            seconds=time.monotonic() - started,
            is_finite=bool(result.is_finite),
            facts=trainer.facts,
        )
        yield report
        started = time.monotonic()


def _add_eviction(report: EpochReport, seconds: float, progress: Progress) -> None:
    report.evict_s += seconds
    progress.metrics.stood_still("eviction", seconds)


def _results(steps: Iterator[StepResult], report: EpochReport, progress: Progress) -> Iterator[StepResult]:
    """Yields the results of steps; adds the time that this rank waited in them for others to the report."""
    while True:
        before = collectives.waited_s()
        result = next(steps, None)
        _add_rank_wait(report, before, collectives.waited_s(), progress)
        if result is None:
            return
        yield result


def _add_rank_wait(report: EpochReport, before: float | None, after: float | None, progress: Progress) -> None:
    if before is None or after is None or report.rank_wait_s is None:
        report.rank_wait_s = None
        return
    report.rank_wait_s += after - before
    progress.rank_waited_s = (progress.rank_waited_s or 0.0) + after - before
    progress.metrics.stood_still("ranks", after - before)


def _timed(batches: Iterable[Batch], report: EpochReport, progress: Progress) -> Iterator[Batch]:
    """Yields the batches; adds the waiting time to the report."""
    left = iter(batches)
    while True:
        started = time.monotonic()
        batch = next(left, None)
        waited_s = time.monotonic() - started
        report.input_wait_s += waited_s
        progress.waited_s += waited_s
        progress.metrics.stood_still("input", waited_s)
        if batch is None:
            return
        progress.metrics.batch(batch)
        yield batch


def _refuse_too_many_skipped(trainer: Trainer, losses: list[float]) -> None:
    allowed = trainer.ranker.spec.training.max_skipped_steps
    if trainer.skipped_in_a_row > allowed:
        by_task = dict(zip(trainer.ranker.tasks, losses, strict=True))
        raise NotFiniteError(
            f"training: losses or gradients were not finite {trainer.skipped_in_a_row} steps in a row, after step "
            f"{trainer.step} (got losses {by_task}; training.max_skipped_steps is {allowed}); lower the learning "
            "rates, or look for extreme values of features or labels"
        )
