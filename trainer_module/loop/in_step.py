"""Training in step: every rank owns a share of the rows, and all exchange rows and dense gradients in every step."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow as tf

from sangam.trainer_module import collectives
from sangam.trainer_module.embedding.eviction import Counts, evict, finish
from sangam.trainer_module.embedding.persistence import restore
from sangam.trainer_module.embedding.row_optimizers import StepContext
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.embedding.sharded_tables import Pulled, Routed, SentKeys, ShardedTables
from sangam.trainer_module.embedding.statistics import TableCounts, statistics
from sangam.trainer_module.embedding.stores import stores_of
from sangam.trainer_module.input.batch import DENSE_TENSORS, Batch, ids_of, then_empty
from sangam.trainer_module.loop.step import (
    StepResult,
    StepState,
    Summed,
    event_minutes,
    local_step,
    of_all,
    update_dense,
)
from sangam.trainer_module.loop.trainer import Held, Trainer
from sangam.trainer_module.monitoring.training import TrainingFacts
from sangam.trainer_module.placement import Placement
from sangam.trainer_module.progress import Progress
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.snapshot import Snapshot, StoredSnapshot


def send_keys(state: StepState, tables: ShardedTables, batch: Batch) -> SentKeys:
    """Sends a batch's keys to the ranks that own them. All ranks together."""
    keys = state.ranker.keys_in_training(batch, state.epoch)
    return tables.send_keys(keys, event_minutes(state, batch), "train")


def route_keys(state: StepState, tables: ShardedTables, batch: Batch) -> Routed:
    """Sends a batch's keys and receives those that this rank owns. All ranks together."""
    return tables.routed(send_keys(state, tables, batch))


def one_step(
    state: StepState, tables: ShardedTables, batch: Batch, routed: Routed, following: Batch
) -> tuple[StepResult, Routed]:
    """Trains on a batch, and routes the next batch's keys meanwhile. All ranks together.

    Args:
        state: read and updated.
        tables: read and updated.
        batch: this rank's batch.
        routed: the batch's keys, by `route_keys`.
        following: the next batch; its keys suffice.
    """
    pulled = tables.pull(routed, state.step + 1)
    # After this batch's rows: messages are served in order, and the dense part hides this latency.
    with tf.control_dependencies([of_group.embeddings_uD for of_group in pulled.unique.values()]):
        next_keys = send_keys(state, tables, following)
    local = local_step(state, batch, pulled.unique)
    # Send everything before waiting for anything.
    placement = state.ranker.placement
    sent_rows = tables.send_gradients(pulled, local.rows)
    with placement.dense() if collectives.sums_on_device() else placement.host():
        sent_dense = collectives.send_sum(local.message, name="dense")
    row_gradients = sent_rows()
    with tf.name_scope("exchange"):
        summed = of_all(state, sent_dense())
    next_routed = tables.routed(next_keys)

    is_due = summed.result.is_finite & (summed.result.count > 0.0)
    _update(state, tables, pulled, row_gradients, summed, is_due)
    return summed.result, next_routed


def _update(
    state: StepState,
    tables: ShardedTables,
    pulled: Pulled,
    row_gradients: Mapping[str, tf.Tensor],
    summed: Summed,
    is_due: tf.Tensor,
) -> None:
    """Updates the dense weights and the rows, unless the step is skipped."""

    def unchanged() -> StepContext:
        return StepContext(state.step.read_value(), tf.constant(1.0))

    def dense() -> StepContext:
        step, factor = update_dense(state, summed)
        return StepContext(tf.identity(step), tf.convert_to_tensor(factor))

    def rows(names: Iterable[str], context: StepContext) -> tf.Tensor:
        with tf.name_scope("update"):
            tables.apply(names, pulled, row_gradients, summed.scale, context)
        return tf.constant(True)

    def both() -> StepContext:
        context = dense()
        rows(tables.stores, context)
        return context

    placement = state.ranker.placement
    if placement.accelerator is None:
        tf.cond(is_due, both, unchanged)
        return
    # One for each device: a condition copies what it reads to its own.
    with placement.dense():
        context = tf.cond(is_due, dense, unchanged)
    for name, store in tables.stores.items():
        with store.by_rows():
            tf.cond(is_due, functools.partial(rows, [name], context), lambda: tf.constant(False))


def _moved(placement: Placement, batch: Batch) -> Batch:
    """Returns a batch with what the dense layers read on the accelerator, if there is one.

    The sizes of a batch are those of its ids, which stay on the host; a batch without ids stays there whole.
    """
    if placement.accelerator is None or not ids_of(batch):
        return batch
    with placement.dense():
        return batch | {name: tf.identity(batch[name]) for name in DENSE_TENSORS if name in batch}


def _of_all_ranks(counts: Counts) -> Counts:
    """Returns the sums over the ranks. All ranks together."""
    total: Counts = collectives.allreduce_sum(tf.constant(counts, tf.int64), name=f"evict_{len(counts)}").numpy()
    return total


class InStepTrainer(Trainer):
    """A ranker trained in step on one of several ranks.

    Attributes:
        tables: this rank's share of the rows, and access to the other ranks' rows.
    """

    def __init__(
        self,
        ranker: Ranker,
        *,
        rank: int,
        ranks: int,
        last_minute: int | None = None,
        track_changes: bool = False,
        in_proportion: bool = False,
    ):
        """See `Trainer`; `track_changes`: see `RowStore`."""
        super().__init__(ranker, rank=rank, ranks=ranks, last_minute=last_minute, in_proportion=in_proportion)
        seed = ranker.spec.training.seed
        stores = stores_of(
            ranker.groups, seed=seed, owners=ranks, track_changes=track_changes, placement=ranker.placement
        )
        self.tables = ShardedTables(stores, num_ranks=ranks)
        batch = ranker.layout.batch_spec()
        read = ranker.unseen.read
        ids = read(batch)
        self._logits, self._host_logits = (
            tf.function(functools.partial(self._read_logits, where=where), input_signature=[batch], autograph=False)
            for where in (ranker.placement.dense, ranker.placement.host)
        )
        route = functools.partial(route_keys, self._state, self.tables)
        self._route = tf.function(route, input_signature=[ids], autograph=False)
        outputs = self._route.get_concrete_function().structured_outputs
        routed = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), outputs)
        self._counts: TableCounts | None = None
        step = functools.partial(one_step, self._state, self.tables)
        self._train_step = tf.function(step, input_signature=[batch, routed, ids], autograph=False)

    def trace(self) -> None:
        """See `Trainer`."""
        self._train_step.get_concrete_function()

    def steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """See `Trainer`.

        While a batch is trained on, the keys of the next one are sent to their owners, and its numbers to the
        accelerator. Rows are not read ahead: the results equal those of one batch after another.
        """
        ahead, placement = then_empty(batches, self.ranker.layout), self.ranker.placement
        batch = _moved(placement, next(ahead))
        read = self.ranker.unseen.read
        routed = self._route(read(batch))
        with ThreadPoolExecutor(1) as mover:
            for following in ahead:
                moving = mover.submit(_moved, placement, following) if placement.accelerator else None
                result, routed = self._train_step(batch, routed, read(following))
                if int(result.count) == 0:
                    return
                yield result
                batch = following if moving is None else moving.result()

    def evict(self, progress: Progress) -> float:
        """See `Trainer`."""
        if not any(group.counts_occurrences for group in self.ranker.groups.values()):
            return 0.0
        now, started = self.newest_minute, time.monotonic()
        with progress.beating():
            for store in self.tables.stores.values():
                finish(evict(store, now=now), _of_all_ranks)
        return time.monotonic() - started

    def evict_if_due(self, progress: Progress) -> float:
        """See `Trainer`."""
        is_due = self.step % self.ranker.spec.training.evict_every_steps == 0
        return self.evict(progress) if is_due else 0.0

    def statistics(self) -> dict[str, dict[str, Any]]:
        """See `Trainer`."""
        return statistics(self.tables.stores, rank=self.rank, ranks=self.ranks)

    def facts(self) -> TrainingFacts:
        """See `Trainer`."""
        if self._counts is None:
            self._counts = TableCounts(self.tables.stores)
        return TrainingFacts(self.learning_rates(), self._counts.read())

    def logits(self, batch: Batch) -> tf.Tensor:
        """See `Trainer`."""
        return self._logits(batch)

    def logits_on_host(self, batch: Batch) -> tf.Tensor:
        """See `Trainer`."""
        return self._host_logits(batch) if self.ranker.placement.accelerator else self._logits(batch)

    def _read_logits(self, batch: Batch, *, where: Callable[[], AbstractContextManager[Any]]) -> tf.Tensor:
        batch = self.ranker.serving(batch)
        unique = self.tables.read(self.ranker.keys(batch))
        with where():
            embeddings = {group: tf.gather(rows.embeddings_uD, rows.index_n) for group, rows in unique.items()}
            return self.ranker.logits(self.ranker.weights.unpack(self.model), batch, embeddings)

    def _rows(self, held: Callable[[RowStore], Held]) -> dict[str, Held]:
        return {name: held(store) for name, store in self.tables.stores.items()}

    def restore(
        self, snapshot: Snapshot | StoredSnapshot, directory: Path | None = None, *, is_base: bool = False
    ) -> None:
        """See `Trainer`."""
        del directory, is_base
        self._restore_dense(snapshot)
        self._counts = None
        for name, store in self.tables.stores.items():
            if name in snapshot.groups:
                restore(store, snapshot.groups[name], rank=self.rank, ranks=self.ranks)
