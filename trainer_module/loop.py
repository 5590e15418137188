"""The training loop: dense layers synchronous over the ranks, embedding rows updated on their owners."""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer_module import collectives
from trainer_module.dense.optimizers import DenseState
from trainer_module.embedding.row_optimizers import row_update
from trainer_module.embedding.row_store import RowStore
from trainer_module.embedding.sharded_tables import ShardedTables, Unique
from trainer_module.input import batch_spec, empty_batch
from trainer_module.progress import Progress
from trainer_module.ranker import Batch, Ranker
from trainer_module.validation import metric_of


class NotFiniteError(RuntimeError):
    """The loss is NaN or infinite."""


@dataclass
class EpochReport:
    """What one epoch did.

    Attributes:
        step_losses: every step's mean loss by task: [steps, tasks].
        step_examples: every step's number of examples: [steps].
        seconds: of training, without validation.
        validation: by task, `auc` or `rmse` on the validation split; empty without one.
    """

    step_losses: list[list[float]] = field(default_factory=list)
    step_examples: list[int] = field(default_factory=list)
    seconds: float = 0.0
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
    """A ranker in training: its weights and tables, and one step over all ranks."""

    def __init__(self, ranker: Ranker, *, rank: int, ranks: int):
        declared = ranker.declared
        training = declared.training
        self.ranker, self.rank, self.ranks = ranker, rank, ranks
        self.dense = DenseState(training.dense_optimizer, ranker.weights.initial(training.seed))
        update = row_update(training.embedding_optimizer)
        stores = {dim: RowStore(dim=dim, update=update, seed=training.seed, name=f"dim{dim}") for dim in ranker.dims}
        self.tables = ShardedTables(stores, num_ranks=ranks)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._task_weights = tf.constant([declared.tasks[task].weight for task in ranker.tasks], tf.float32)
        self._empty = empty_batch(declared)
        signature = [batch_spec(declared)]
        self._train_step = tf.function(self._one_step, input_signature=signature, autograph=False)
        self._logits = tf.function(self._read_logits, input_signature=signature, autograph=False)

    def train_epoch(self, batches: Iterable[Batch], progress: Progress) -> EpochReport:
        """Trains until no rank has a batch left. All ranks call it together.

        A rank that has run out takes part with empty batches; every example counts once and equally.

        Raises:
            NotFiniteError: on all ranks in the same step.
        """
        report, started = EpochReport(), time.monotonic()
        for batch in self._until_all_done(batches):
            losses_T, count = self._train_step(batch)
            num_examples = int(count)
            if num_examples == 0:
                report.seconds = time.monotonic() - started
                return report
            losses = losses_T.numpy().tolist()
            if not all(map(math.isfinite, losses)):
                by_task = dict(zip(self.ranker.tasks, losses, strict=True))
                raise NotFiniteError(
                    f"training: the loss is not finite at step {int(self._step)} (got {by_task}); "
                    "lower training.dense_optimizer.learning_rate or training.embedding_optimizer.learning_rate"
                )
            report.step_examples.append(num_examples)
            report.step_losses.append(losses)
            progress.stepped(num_examples, sum(losses))
        raise AssertionError("unreachable: empty batches never end")

    def _until_all_done(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        yield from batches
        while True:
            yield self._empty

    def _one_step(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns each task's mean loss over the global batch [tasks] and that batch's size."""
        pulled = self.tables.pull(self.ranker.keys(batch))
        losses_T, dense_gradient, row_gradients = self._gradients(batch, pulled.unique)
        mine = tf.cast(self.ranker.batch_size(batch), tf.float32)
        # Sums, not means, cross the wire: the ranks' batches may differ in size. One allreduce carries them all.
        summed = collectives.allreduce_sum(tf.concat([dense_gradient, losses_T, [mine]], 0), name="dense")
        count = summed[-1]
        scale = tf.math.reciprocal_no_nan(count)

        def update() -> tf.Tensor:
            step = self._step.assign_add(1)
            self.dense.apply(summed[: self.ranker.weights.size] * scale, step)
            return step

        step = tf.cond(count > 0, update, lambda: self._step.read_value())
        self.tables.push(pulled, row_gradients, scale, step)
        return summed[self.ranker.weights.size : -1] * scale, count

    def _gradients(self, batch: Batch, unique: dict[int, Unique]) -> tuple[tf.Tensor, tf.Tensor, dict[int, tf.Tensor]]:
        flat = self.dense.flat.read_value()
        rows = {dim: of_dim.embeddings_uD for dim, of_dim in unique.items()}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([flat, rows])
            embeddings = {dim: tf.gather(rows[dim], unique[dim].place_n) for dim in unique}
            logits_BT = self.ranker.logits(self.ranker.weights.unpack(flat), batch, embeddings)
            losses_T = self.ranker.loss_sums(logits_BT, batch)
            total = tf.reduce_sum(losses_T * self._task_weights)
        dense_gradient, row_gradients = tape.gradient(total, [flat, rows])
        return losses_T, dense_gradient, {dim: tf.convert_to_tensor(found) for dim, found in row_gradients.items()}

    def _read_logits(self, batch: Batch) -> tf.Tensor:
        found = self.tables.read(self.ranker.keys(batch))
        embeddings = {dim: tf.gather(unique.embeddings_uD, unique.place_n) for dim, unique in found.items()}
        return self.ranker.logits(self.ranker.weights.unpack(self.dense.flat), batch, embeddings)

    def predict(self, batch: Batch | None) -> dict[str, NDArray[Any]]:
        """Returns {task: [batch, 1]} without making rows. All ranks call it together; None is an empty batch."""
        logits_BT = self._logits(self._empty if batch is None else batch)
        return {task: values.numpy() for task, values in self.ranker.predictions(logits_BT).items()}

    def validate(self, batches: Iterable[Batch], progress: Progress) -> dict[str, dict[str, float]]:
        """Returns {task: {"auc" or "rmse": value}} over all ranks' batches. All ranks call it together."""
        metrics = {task: metric_of(self.ranker.declared.tasks[task]) for task in self.ranker.tasks}
        for batch in self._until_all_done(batches):
            num_examples = self.ranker.batch_size(batch)
            if int(collectives.allreduce_sum(num_examples, name="validation_examples")) == 0:
                break
            progress.beat()
            logits_BT = self._logits(batch).numpy()
            for task, logits_B in zip(self.ranker.tasks, logits_BT.T, strict=True):
                metrics[task].add(batch[task].numpy(), logits_B)
        results = {}
        for task, metric in metrics.items():
            totals = collectives.allreduce_sum(tf.constant(metric.totals), name=f"metric_{task}").numpy()
            results[task] = {metric.name: metric.value(totals)}
        return results
