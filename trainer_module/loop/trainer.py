"""A ranker in training on one rank: its weights and tables, its compiled step, and its state as a snapshot."""

import functools
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer_module import collectives
from trainer_module.dense.optimizers import DenseState
from trainer_module.embedding.eviction import evict, rank_share
from trainer_module.embedding.persistence import restore, snapshot_of
from trainer_module.embedding.row_store import RowStore
from trainer_module.embedding.sharded_tables import ShardedTables
from trainer_module.embedding.statistics import statistics
from trainer_module.input.batch import Batch, empty_batch, ids_of, then_empty
from trainer_module.loop.learning_rate import StepsOfSchedule
from trainer_module.loop.step import StepResult, StepState, one_step, route_keys
from trainer_module.losses import Balance
from trainer_module.progress import Progress
from trainer_module.ranker import Ranker
from trainer_module.snapshot import Arrays, Snapshot, StoredSnapshot

_WEIGHTS = "weights"


class Trainer:
    """A ranker in training. Every method that says so is called by all ranks together.

    Attributes:
        skipped_in_a_row: steps just skipped for losses or gradients that were not finite.
    """

    def __init__(self, ranker: Ranker, *, rank: int, ranks: int, last_minute: int | None = None):
        """Makes a trainer with initial weights and empty tables.

        Args:
            ranker: the model.
            rank: this one.
            ranks: how many train together.
            last_minute: minutes since 1970; an event after it counts as at it, so that one wrong clock in the logs
                cannot make all other rows look old.
        """
        training = ranker.spec.training
        self.ranker, self.rank, self.ranks, self.last_minute = ranker, rank, ranks, last_minute
        self.dense = DenseState(training.dense_optimizer, ranker.weights, seed=training.seed)
        self.balance = Balance(ranker.spec)
        stores = {}
        for name, group in ranker.groups.items():
            capacities = [table.capacity.rows for table in group.tables.values() if table.capacity]
            expected = sum(rank_share(rows, rank, ranks) for rows in capacities)
            # Between evictions there may be more rows; unused room costs nothing.
            stores[name] = RowStore(group, seed=training.seed, expected_rows=expected + expected // 8)
        self.tables = ShardedTables(stores, num_ranks=ranks)
        self.skipped_in_a_row = 0
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._schedule = StepsOfSchedule()
        self._newest = tf.Variable(0, dtype=tf.int32, trainable=False, name="newest_minute")
        state = StepState(
            ranker,
            self.dense,
            self.tables,
            self.balance,
            step=self._step,
            schedule=self._schedule,
            newest_minute=self._newest,
            last_minute=last_minute,
            rank=rank,
        )
        batch = ranker.layout.batch_spec()
        ids = ids_of(batch)
        self.logits = tf.function(self._read_logits, input_signature=[batch], autograph=False)
        self._route = tf.function(functools.partial(route_keys, state), input_signature=[ids], autograph=False)
        outputs = self._route.get_concrete_function().structured_outputs
        routed = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), outputs)
        step = functools.partial(one_step, state)
        self._train_step = tf.function(step, input_signature=[batch, routed, ids], autograph=False)

    @property
    def step(self) -> int:
        """Updates so far: skipped steps do not count."""
        return int(self._step)

    @property
    def newest_minute(self) -> int:
        """Newest event trained on by any rank, minutes since 1970; 0 without times. All ranks together."""
        return int(collectives.allreduce_max(self._newest.read_value(), name="newest_minute"))

    def steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """Trains on one batch after another until no rank has one left. All ranks together.

        While a batch is trained on, the keys of the next one travel to their owners. Rows are not
        read ahead: the results equal those of one batch after another.
        """
        ahead = then_empty(batches, self.ranker.layout)
        batch = next(ahead)
        routed = self._route(ids_of(batch))
        for following in ahead:
            result, routed = self._train_step(batch, routed, ids_of(following))
            if int(result.count) == 0:
                return
            yield result
            batch = following

    def begin_schedule(self, *, step: int, pace: float) -> None:
        """Begins the schedule of learning rates anew.

        Args:
            step: continue counting from it: checkpoints are named by the step, and names must not repeat.
            pace: steps of the schedule in one step of training.
        """
        self._step.assign(step)
        self._schedule.begin(step=step, pace=pace)

    def evict(self, progress: Progress) -> float:
        """Removes rows by the tables' expiry and capacity; returns the seconds it took. All ranks together."""
        if not any(group.counts_occurrences for group in self.ranker.groups.values()):
            return 0.0
        now, started = self.newest_minute, time.monotonic()
        with progress.beating():
            for store in self.tables.stores.values():
                evict(store, now=now, rank=self.rank, ranks=self.ranks)
        return time.monotonic() - started

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Returns numbers by table over all ranks, see `embedding.statistics`. All ranks together."""
        return statistics(self.tables.stores, rank=self.rank, ranks=self.ranks)

    def predict(self, batch: Batch | None) -> dict[str, NDArray[Any]]:
        """Returns {task: [batch, 1]} without making rows. All ranks together; None is an empty batch."""
        logits_BT = self.logits(empty_batch(self.ranker.layout) if batch is None else batch)
        return {task: values.numpy() for task, values in self.ranker.predictions(logits_BT).items()}

    def _read_logits(self, batch: Batch) -> tf.Tensor:
        batch = self.ranker.serving(batch)
        unique = self.tables.read(self.ranker.keys(batch))
        embeddings = {group: tf.gather(rows.embeddings_uD, rows.index_n) for group, rows in unique.items()}
        return self.ranker.logits(self.ranker.weights.unpack(self.dense.flat), batch, embeddings)

    def snapshot(self) -> Snapshot:
        """Returns a copy of all that this rank needs to continue. All ranks together, between steps."""
        flats = {_WEIGHTS: self.dense.flat, **self.dense.moments}
        dense = {
            f"{kind}/{name}": array.copy()
            for kind, flat in flats.items()
            for name, array in self.ranker.weights.by_name(flat.numpy()).items()
        }
        groups = {name: snapshot_of(store) for name, store in self.tables.stores.items()}
        extra: Arrays = {
            "newest_minute": np.array([self.newest_minute], np.int32),
            **self._schedule.snapshot(),
        }
        return Snapshot(step=self.step, dense=dense, groups=groups, extra=extra | self.balance.snapshot())

    def restore(self, snapshot: Snapshot | StoredSnapshot) -> None:
        """Loads a snapshot into a fresh trainer; its rows must be those that this rank owns.

        Weights, moments and groups that it lacks keep their initial values. A snapshot that does not say when the
        schedule of learning rates began starts it at its own step.
        """
        for kind, flat in {_WEIGHTS: self.dense.flat, **self.dense.moments}.items():
            arrays = self.ranker.weights.by_name(flat.numpy())
            arrays |= {name: snapshot.dense[f"{kind}/{name}"] for name in arrays if f"{kind}/{name}" in snapshot.dense}
            flat.assign(np.concatenate([arrays[weight.name].ravel() for weight in self.ranker.weights.weights]))
        for name, store in self.tables.stores.items():
            if name in snapshot.groups:
                restore(store, snapshot.groups[name], rank=self.rank, ranks=self.ranks)
        self.balance.restore(snapshot.extra)
        self._step.assign(snapshot.step)
        self._schedule.restore(snapshot.extra, step=snapshot.step)
        if "newest_minute" in snapshot.extra:
            self._newest.assign(int(snapshot.extra["newest_minute"][0]))
