"""The engine under test, through the same classes that a training job uses."""

import itertools
from collections.abc import Iterable

import tensorflow as tf

from bench.rivals import Step
from bench.workload import Pool, ranker
from trainer_module.input.batch import Batch
from trainer_module.loop.in_step import InStepTrainer
from trainer_module.ranker import Ranker


def trainer_step(pool: Pool, batch_size: int, *, rank: int, ranks: int, bfloat16: bool) -> Step:
    """Returns the trainer's own step over a pool."""
    precision = "bfloat16" if bfloat16 else "float32"
    trainer = InStepTrainer(Ranker(ranker(dense_precision=precision)), rank=rank, ranks=ranks)
    results = trainer.steps(itertools.cycle(batches_of(pool, batch_size)))
    return lambda: float(next(results).losses_T.numpy().sum())


def train(trainer: InStepTrainer, batches: Iterable[Batch]) -> None:
    """Trains on every batch once, alone."""
    for result in trainer.steps(batches):
        result.losses_T.numpy()


def batches_of(pool: Pool, batch_size: int) -> list[Batch]:
    """Returns a pool as the trainer takes it."""
    columns = {"ids": pool.keys, "floats": pool.floats, "labels": pool.labels}
    return [
        {name: tf.constant(column[start : start + batch_size]) for name, column in columns.items()}
        for start in range(0, len(pool.labels), batch_size)
    ]
