"""The engine under test, through the same classes that a training job uses."""

import itertools
from collections.abc import Iterable

import tensorflow as tf

from bench.rivals import Step
from bench.served import ATTEMPT
from bench.workload import Pool
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.loop.stale import StaleTrainer
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.parameter_server.client import find_servers
from sangam.trainer_module.ranker import Ranker


def trainer_step(pool: Pool, batch_size: int, declared: RankerSpec, *, rank: int, ranks: int) -> Step:
    """Returns the trainer's own step over a pool."""
    return _step(InStepTrainer(Ranker(declared), rank=rank, ranks=ranks), pool, batch_size)


def served_step(pool: Pool, batch_size: int, job: TrainJob, *, rank: int, ranks: int) -> Step:
    """Returns the step of a trainer whose rows are on the job's parameter servers, over which its ranks meet."""
    servers = find_servers(job, ATTEMPT, rank=rank, ranks=ranks)
    collectives.start_over(servers)
    trainer = StaleTrainer(Ranker(job.ranker), servers, rank=rank, ranks=ranks)
    trainer.begin()
    return _step(trainer, pool, batch_size)


def _step(trainer: Trainer, pool: Pool, batch_size: int) -> Step:
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
