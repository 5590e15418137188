"""The training loop: dense layers synchronous over the ranks, embedding rows updated on their owners."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer_module import collectives
from trainer_module.dense.noise import Noise
from trainer_module.dense.optimizers import DenseState, clipped
from trainer_module.embedding.eviction import evict, rank_share
from trainer_module.embedding.persistence import restore, snapshot_of
from trainer_module.embedding.row_optimizers import Now
from trainer_module.embedding.row_store import RowStore
from trainer_module.embedding.sharded_tables import ShardedTables, Unique
from trainer_module.embedding.statistics import statistics
from trainer_module.input.batch import Batch, empty_batch, ids_of
from trainer_module.loop.learning_rate import StepsOfSchedule, factor
from trainer_module.loop.progress import Progress
from trainer_module.loop.validation import metric_of
from trainer_module.losses import Balance
from trainer_module.ranker import Ranker
from trainer_module.snapshot import Arrays, Snapshot, StoredSnapshot

_WEIGHTS = "weights"


class _Gradients(NamedTuple):
    """Gradients of a rank's sums over its examples.

    Attributes:
        dense: [size].
        shared_TS: of each task's loss, with respect to the weights that the balance compares them at; may be empty.
        rows: by group.
    """

    dense: tf.Tensor
    shared_TS: tf.Tensor
    rows: dict[str, tf.Tensor]


class NotFiniteError(RuntimeError):
    """Losses or gradients were NaN or infinite too many steps in a row."""


class StepResult(NamedTuple):
    """What a step of all ranks came to.

    Attributes:
        losses_T: each task's mean loss over the global batch.
        count: examples in the global batch.
        is_finite: whether losses and gradients were; otherwise nothing was updated.
    """

    losses_T: tf.Tensor
    count: tf.Tensor
    is_finite: tf.Tensor


@dataclass
class EpochReport:
    """What one epoch did.

    Attributes:
        step_losses: every step's mean loss by task: [steps, tasks].
        step_examples: every step's number of examples: [steps].
        skipped: steps left out of both, for losses or gradients that were not finite.
        seconds: of training, without validation.
        evict_s: of these, what removing rows took on this rank.
        validation: by task, `auc` or `rmse` on the validation split; empty without one.
    """

    step_losses: list[list[float]] = field(default_factory=list)
    step_examples: list[int] = field(default_factory=list)
    skipped: int = 0
    seconds: float = 0.0
    evict_s: float = 0.0
    validation: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def examples(self) -> int:
        """Number of examples over all ranks."""
        return sum(self.step_examples)

    def mean_losses(self) -> list[float]:
        """Returns each task's mean loss over the examples: [tasks]."""
        means: list[float] = np.average(self.step_losses, axis=0, weights=self.step_examples).tolist()
        return means


class Trainer:
    """A ranker in training: its weights and tables, and one step over all ranks.

    Attributes:
        num_validated: examples of all ranks that `validate` has seen last.
    """

    def __init__(self, ranker: Ranker, *, rank: int, ranks: int, last_minute: int | None = None):
        """Makes a trainer whose weights are at their start and whose tables are empty.

        Args:
            ranker: the model.
            rank: this one.
            ranks: how many train together.
            last_minute: minutes since 1970; an event after it counts as at it, so that one wrong clock in the logs
                cannot make all other rows look old.
        """
        training = ranker.declared.training
        self.ranker, self.rank, self.ranks = ranker, rank, ranks
        self.dense = DenseState(training.dense_optimizer, ranker.weights, seed=training.seed)
        self.balance = Balance(ranker.declared)
        stores = {}
        for name, group in ranker.groups.items():
            capacities = [table.capacity.rows for table in group.tables.values() if table.capacity]
            expected = sum(rank_share(rows, rank, ranks) for rows in capacities)
            # Between evictions there may be more; room that is not used costs nothing.
            stores[name] = RowStore(group, seed=training.seed, expected_rows=expected + expected // 8)
        self.tables = ShardedTables(stores, num_ranks=ranks)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._schedule = StepsOfSchedule()
        self._newest = tf.Variable(0, dtype=tf.int32, trainable=False, name="newest_minute")
        self._last_minute = last_minute
        self._skipped_in_a_row = self.num_validated = 0
        self._empty = empty_batch(ranker.layout)
        spec = ranker.layout.batch_spec()
        self._logits = tf.function(self._read_logits, input_signature=[spec], autograph=False)
        ids = ids_of(spec)
        self._route = tf.function(self._route_keys, input_signature=[ids], autograph=False)
        outputs = self._route.get_concrete_function().structured_outputs
        on_the_way = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in outputs]
        self._train_step = tf.function(self._one_step, input_signature=[spec, on_the_way, ids], autograph=False)

    @property
    def step(self) -> int:
        """Number of updates so far: skipped steps do not count."""
        return int(self._step)

    def begin_schedule(self, *, step: int, pace: float) -> None:
        """Begins the schedule of learning rates anew.

        Args:
            step: to count on from: checkpoints are named by it, and must not be taken for earlier ones.
            pace: steps of the schedule in one step of training.
        """
        self._step.assign(step)
        self._schedule.begin(step=step, pace=pace)

    def train_epoch(
        self,
        batches: Iterable[Batch],
        progress: Progress,
        after_step: Callable[[], None] = lambda: None,
        report: EpochReport | None = None,
    ) -> EpochReport:
        """Trains until no rank has a batch left. All ranks call it together.

        A rank that has run out takes part with empty batches; every example counts once and equally.

        Args:
            batches: of this rank.
            progress: told of every step.
            after_step: called on every rank after each step of all of them, the last one included.
            report: of the same epoch before it was interrupted; continued.

        Raises:
            NotFiniteError: on all ranks in the same step.
        """
        report, started = report or EpochReport(), time.monotonic()
        evict_every = self.ranker.declared.training.evict_every_steps
        for result in self.steps(batches):
            num_examples, losses = int(result.count), result.losses_T.numpy().tolist()
            if self._note_skipped(bool(result.is_finite), losses):
                report.skipped += 1
            else:
                report.step_examples.append(num_examples)
                report.step_losses.append(losses)
                if self.step % evict_every == 0:
                    report.evict_s += self.evict(progress)
            progress.stepped(num_examples, sum(losses))
            after_step()
        report.evict_s += self.evict(progress)
        report.seconds += time.monotonic() - started
        return report

    def steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """Trains on one batch after another until no rank has one left. All ranks together.

        While a batch is trained on, the keys of the next one travel to their owners. Nothing of a row is read ahead:
        the results are those of one batch after another.
        """
        ahead = self._until_all_done(batches)
        batch = next(ahead)
        on_the_way = self._route(ids_of(batch))
        for following in ahead:
            result, on_the_way = self._train_step(batch, on_the_way, ids_of(following))
            if int(result.count) == 0:
                return
            yield result
            batch = following

    def _route_keys(self, batch: Batch) -> list[tf.Tensor]:
        """Returns the tensors of `Routed`; its structure is kept aside."""
        routed = self.tables.route(self.ranker.keys(batch), self._observed_minutes(batch), "train")
        leaves = tf.nest.flatten(routed)
        self._routed = tf.nest.pack_sequence_as(routed, [leaf is not None for leaf in leaves])
        return [leaf for leaf in leaves if leaf is not None]

    def _until_all_done(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        yield from batches
        while True:
            yield self._empty

    def _note_skipped(self, is_finite: bool, losses: list[float]) -> bool:
        """Returns whether the step was skipped; too many in a row are an error, on all ranks together."""
        if is_finite:
            self._skipped_in_a_row = 0
            return False
        self._skipped_in_a_row += 1
        allowed = self.ranker.declared.training.max_skipped_steps
        if self._skipped_in_a_row > allowed:
            by_task = dict(zip(self.ranker.tasks, losses, strict=True))
            raise NotFiniteError(
                f"training: losses or gradients were not finite {self._skipped_in_a_row} steps in a row, after step "
                f"{self.step} (got losses {by_task}; training.max_skipped_steps is {allowed}); lower the learning "
                "rates, or look for extreme values of features or labels"
            )
        return True

    def _one_step(
        self, batch: Batch, on_the_way: list[tf.Tensor], following: Batch
    ) -> tuple[StepResult, list[tf.Tensor]]:
        training, tensors = self.ranker.declared.training, iter(on_the_way)
        routed = tf.nest.map_structure(lambda is_there: next(tensors) if is_there else None, self._routed)
        self._newest.assign(tf.maximum(self._newest, self._newest_of(batch)))
        pulled = self.tables.pull(routed, self._step + 1)
        # Behind this batch's rows, not before them: messages are served in order, and the dense part hides this one.
        with tf.control_dependencies([of_group.embeddings_uD for of_group in pulled.unique.values()]):
            next_on_the_way = self._route_keys(following)
        with tf.name_scope("dense"):
            gradients, losses_T = self._gradients(batch, pulled.unique)
        mine = tf.cast(self.ranker.batch_size(batch), tf.float32)
        rows_are_finite = [tf.reduce_all(tf.math.is_finite(of_group)) for of_group in gradients.rows.values()]
        not_finite = 1.0 - tf.cast(tf.reduce_all(tf.stack([True, *rows_are_finite])), tf.float32)
        # Sums, not means, cross the wire: the ranks' batches may differ in size. One allreduce carries them all, and
        # with them whether any rank must skip the step: a sum with NaN or infinity in it is not finite on all ranks.
        with tf.name_scope("exchange"):
            shared = tf.reshape(gradients.shared_TS, [-1])
            message = tf.concat([gradients.dense, shared, losses_T, [mine, not_finite]], 0)
            summed = collectives.allreduce_sum(message, name="dense")
        count = summed[-2]
        is_finite = tf.reduce_all(tf.math.is_finite(summed)) & tf.equal(summed[-1], 0.0)
        scale = tf.math.reciprocal_no_nan(count)
        sizes = [gradients.dense.shape[0], shared.shape[0], losses_T.shape[0]]
        dense_gradient, shared, losses_T = tf.split(summed[:-2] * scale, sizes)
        row_gradients = self.tables.send_gradients(pulled, gradients.rows)

        def update() -> tf.Tensor:
            step = self._step.assign_add(1)
            now = Now(step, factor(training.schedule, self._schedule.at(step)))
            with tf.name_scope("dense_update"):
                self.dense.apply(clipped(dense_gradient, training.clip_gradient_norm), now.step, now.factor)
                self.balance.update(losses_T, tf.reshape(shared, gradients.shared_TS.shape))
            with tf.name_scope("update"):
                self.tables.apply(pulled, row_gradients, scale, now)
            return tf.identity(step)

        tf.cond(is_finite & (count > 0.0), update, lambda: tf.identity(self._step.read_value()))
        return StepResult(losses_T, count, is_finite), next_on_the_way

    def _observed_minutes(self, batch: Batch) -> dict[str, tf.Tensor]:
        minutes = self.ranker.minutes(batch)
        if self._last_minute is None:
            return minutes
        return {group: tf.minimum(of_group, self._last_minute) for group, of_group in minutes.items()}

    def _newest_of(self, batch: Batch) -> tf.Tensor:
        """Returns the newest of the minutes observed; the least int32 of none."""
        minutes = self._observed_minutes(batch)
        return tf.reduce_max([tf.int32.min, *(tf.reduce_max(of_group) for of_group in minutes.values())])

    def _gradients(self, batch: Batch, unique: dict[str, Unique]) -> tuple[_Gradients, tf.Tensor]:
        """Returns gradients of this rank's sums, and each task's sum of losses: [tasks]."""
        flat = self.dense.flat.read_value()
        rows = {group: of_group.embeddings_uD for group, of_group in unique.items()}
        count = tf.cast(self.ranker.batch_size(batch), tf.float32)
        by_task = self.balance.needs_task_gradients
        with tf.GradientTape(watch_accessed_variables=False, persistent=by_task) as tape:
            tape.watch([flat, rows])
            weights = self.ranker.weights.unpack(flat)
            embeddings = {group: tf.gather(rows[group], unique[group].place_n) for group in unique}
            losses_T = self.ranker.loss_sums(self.ranker.logits(weights, batch, embeddings, self._noise()), batch)
            total = self.balance.total(losses_T, count, weights)
            losses = tf.unstack(losses_T) if by_task else []
        dense, of_rows = tape.gradient(total, [flat, rows])
        shared = [weights[name] for name in self.ranker.shared]
        shared_TS = [tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(loss, shared)], 0) for loss in losses]
        none = tf.zeros([len(self.ranker.tasks), 0])
        of_rows = {group: tf.convert_to_tensor(found) for group, found in of_rows.items()}
        return _Gradients(dense, tf.stack(shared_TS) if by_task else none, of_rows), losses_T

    def _noise(self) -> Noise | None:
        """Returns the noise of the step that is being made; None where nothing is dropped."""
        if self.ranker.declared.model.dropout == 0.0:
            return None
        return Noise.of_step(seed=self.ranker.declared.training.seed, step=self._step + 1, rank=self.rank)

    def _read_logits(self, batch: Batch) -> tf.Tensor:
        batch = self.ranker.serving(batch)
        found = self.tables.read(self.ranker.keys(batch))
        embeddings = {group: tf.gather(unique.embeddings_uD, unique.place_n) for group, unique in found.items()}
        return self.ranker.logits(self.ranker.weights.unpack(self.dense.flat), batch, embeddings)

    @property
    def newest_minute(self) -> int:
        """Minutes since 1970 of the newest event trained on by any rank; 0 without times. All ranks together."""
        return int(collectives.allreduce_max(self._newest.read_value(), name="newest_minute"))

    def evict(self, progress: Progress) -> float:
        """Removes the rows that the tables' declarations say, on all ranks together; returns the seconds it took."""
        if not any(group.counts_occurrences for group in self.ranker.groups.values()):
            return 0.0
        now, started = self.newest_minute, time.monotonic()
        with progress.beating():
            for store in self.tables.stores.values():
                evict(store, now=now, rank=self.rank, ranks=self.ranks)
        return time.monotonic() - started

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Returns numbers by table over all ranks, see `embedding.statistics`. All ranks call it together."""
        return statistics(self.tables.stores, rank=self.rank, ranks=self.ranks)

    def snapshot(self) -> Snapshot:
        """Returns a copy of all that this rank would need to go on. All ranks call it together, between steps."""
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
        """Takes a snapshot into a fresh trainer; its rows must be those that this rank owns.

        Weights and moments that it lacks keep their start; so do groups. The schedule of learning rates begins with its
        step where it does not say when.
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

    def predict(self, batch: Batch | None) -> dict[str, NDArray[Any]]:
        """Returns {task: [batch, 1]} without making rows. All ranks call it together; None is an empty batch."""
        logits_BT = self._logits(self._empty if batch is None else batch)
        return {task: values.numpy() for task, values in self.ranker.predictions(logits_BT).items()}

    def validate(self, batches: Iterable[Batch], progress: Progress) -> dict[str, dict[str, float]]:
        """Returns {task: {"auc" or "rmse": value}} over all ranks' batches. All ranks call it together."""
        metrics = {task: metric_of(self.ranker.declared.tasks[task]) for task in self.ranker.tasks}
        self.num_validated = 0
        for batch in self._until_all_done(batches):
            num_examples = collectives.allreduce_sum(self.ranker.batch_size(batch), name="validation_examples")
            if int(num_examples) == 0:
                break
            self.num_validated += int(num_examples)
            progress.beat()
            logits_BT = self._logits(batch)
            predictions, labels_BT = self.ranker.predictions(logits_BT), self.ranker.labels(batch).numpy()
            for place, (task, metric) in enumerate(metrics.items()):
                scores_B1 = logits_BT[:, place : place + 1] if metric.reads_logits else predictions[task]
                metric.add(labels_BT[:, place], scores_B1.numpy()[:, 0])
        results = {}
        for task, metric in metrics.items():
            totals = collectives.allreduce_sum(tf.constant(metric.totals), name=f"metric_{task}").numpy()
            results[task] = {metric.name: metric.value(totals)}
        return results
