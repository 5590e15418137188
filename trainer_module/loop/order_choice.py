"""The order of the days: `auto` trains briefly in both orders, and compares the models on the validation split.

Where days differ, the newest ones weigh more in their order, and the model forgets the others. Which of both matters
more depends on the data.
"""

import logging
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sangam.schemas.contracts.example_files import by_day
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.tasks import BinaryTask
from sangam.schemas.spec.training import ORDER_OF_DAYS, SAMPLE, Order
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.example_reader import reader_of
from sangam.trainer_module.input.local_reader import evenly, own_batches, validation_batches
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.loop.validation import validate
from sangam.trainer_module.progress import Progress
from sangam.trainer_module.ranker import Ranker

_LOG = logging.getLogger("sangam.trainer_module.rank")
MOST_EXAMPLES, SHARE, LEAST_DAYS = 200_000, 8, 7
"""A short training has about so many of the newest examples at most, one of so many of all, of so many days at least:
an order of two days says nothing of the others."""
PARTS = 8
"""Parts of the validation split, whose differences say how far chance goes."""
LEAST_GAIN = 0.004
"""Smallest gain of AUC that is more than what other seeds give in so short trainings."""


@dataclass(frozen=True)
class ChosenOrder:
    """The order of a training, and the reason."""

    order: Order
    note: str


def newest(files: Mapping[str, Sequence[str]], num_examples: int) -> dict[str, list[str]]:
    """Returns the files of a short training by day: of the newest days, and of each day some where it has several.

    Args:
        files: all files by day, oldest first.
        num_examples: their number of examples; 0: unknown.
    """
    most = min(MOST_EXAMPLES, num_examples // SHARE)
    num_days = max(LEAST_DAYS, most * len(files) // max(1, num_examples))
    one_of = max(1, num_days * num_examples // (len(files) * max(1, most)))
    return {day: list(files[day][::one_of]) for day in list(files)[-num_days:]}


def decide(in_order: Sequence[float], shuffled: Sequence[float], *, num_days: int) -> ChosenOrder:
    """Returns the order: `shuffled` if its gain is clear, else the default.

    Args:
        in_order: mean AUC on each part of the validation split after the days in their order; NaN where undefined.
        shuffled: the same after the days shuffled together.
        num_days: number of days that both were trained on.
    """
    gains = [after - before for before, after in zip(in_order, shuffled, strict=True) if math.isfinite(after - before)]
    if len(gains) < 2:
        return ChosenOrder(ORDER_OF_DAYS, _note(ORDER_OF_DAYS, "the validation split is too small to compare on"))
    gain, error = statistics.mean(gains), statistics.stdev(gains) / math.sqrt(len(gains))
    least = max(LEAST_GAIN, 2 * error)
    chosen: Order = "shuffled" if gain > least else ORDER_OF_DAYS
    reason = f"shuffling the newest {num_days} days together changes mean AUC on the validation split by {gain:+.4f}"
    return ChosenOrder(chosen, _note(chosen, f"{reason}; from {least:+.4f} on it counts"))


def choose(job: TrainJob, trainer: Trainer, trainer_of: Callable[..., Trainer], progress: Progress) -> ChosenOrder:
    """Returns the order of a job that leaves it to the data. All ranks together, with the same result.

    Args:
        job: the job.
        trainer: the trainer of the job, which stays as it is.
        trainer_of: creates a trainer like it.
        progress: shows that the rank is alive.
    """
    files = by_day(job.train_files)
    if job.base_checkpoint:
        return ChosenOrder(ORDER_OF_DAYS, _note(ORDER_OF_DAYS, "a training that goes on from another has few days"))
    if len(files) < LEAST_DAYS or not job.validation_files:
        return ChosenOrder(ORDER_OF_DAYS, _note(ORDER_OF_DAYS, f"{len(files)} train days, or no validation split"))
    days = newest(files, job.num_train_examples)
    spec, rank, ranks = trainer.ranker.spec, trainer.rank, trainer.ranks
    with progress.beating():
        reader = reader_of(job)
        most = max(PARTS, SAMPLE // (spec.training.batch_size_per_rank * ranks))
        held_out = validation_batches(spec, job.validation_files, rank=rank, ranks=ranks, reader=reader)
        sample = evenly(held_out, most)
        aucs = []
        for order in (ORDER_OF_DAYS, "shuffled"):
            declared = _in_order(spec, order)
            short = trainer_of(Ranker(declared, placement=trainer.ranker.placement), rank=rank, ranks=ranks)
            of_days = [file for of_day in days.values() for file in of_day]
            for _ in short.steps(own_batches(declared, of_days, epoch=0, rank=rank, ranks=ranks, reader=reader)):
                pass
            aucs.append([_mean_auc(short, sample[part::PARTS], progress) for part in range(PARTS)])
            short.close()
    chosen = decide(*aucs, num_days=len(days))
    _LOG.info("%s", chosen.note)
    return chosen


def ordered(job: TrainJob, order: Order | None) -> TrainJob:
    """Returns a job whose examples come in an order that was chosen; None: the spec's."""
    return job if order is None else job.model_copy(update={"ranker": _in_order(job.ranker, order)})


def _in_order(spec: RankerSpec, order: Order | str) -> RankerSpec:
    return spec.model_copy(update={"training": spec.training.model_copy(update={"order": order})})


def _mean_auc(trainer: Trainer, batches: Sequence[Batch], progress: Progress) -> float:
    found = validate(trainer, batches, progress).metrics
    tasks = [name for name, task in trainer.ranker.spec.tasks.items() if isinstance(task, BinaryTask)]
    return statistics.fmean(found[task]["auc"] for task in tasks)


def _note(order: Order, reason: str) -> str:
    return f"training.order: auto chose {order}: {reason}"
