"""One training step of all ranks: dense weights alike on every rank, embedding rows on the rank that owns them."""

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from trainer_module import collectives
from trainer_module.dense.noise import Noise
from trainer_module.dense.optimizers import DenseState, clipped
from trainer_module.embedding.row_optimizers import StepContext
from trainer_module.embedding.sharded_tables import Routed, ShardedTables, Unique
from trainer_module.input.batch import Batch
from trainer_module.loop.learning_rate import StepsOfSchedule, factor
from trainer_module.losses import Balance
from trainer_module.ranker import Ranker


@dataclass(frozen=True)
class StepState:
    """Everything a step reads and updates, besides its batch.

    Attributes:
        ranker: the model.
        dense: its dense weights and their optimizer.
        tables: its embedding rows.
        balance: how the tasks' losses become one.
        step: updates so far, int64.
        schedule: of the learning rates.
        newest_minute: newest event that this rank has trained on, minutes since 1970, int32.
        last_minute: an event after it counts as at it; None: no limit.
        rank: the rank that holds this state.
    """

    ranker: Ranker
    dense: DenseState
    tables: ShardedTables
    balance: Balance
    step: tf.Variable
    schedule: StepsOfSchedule
    newest_minute: tf.Variable
    last_minute: int | None
    rank: int


class StepResult(NamedTuple):
    """The outcome of a step of all ranks.

    Attributes:
        losses_T: each task's mean loss over the global batch.
        count: examples in the global batch.
        is_finite: whether all losses and gradients were finite; if not, nothing was updated.
    """

    losses_T: tf.Tensor
    count: tf.Tensor
    is_finite: tf.Tensor


class _Gradients(NamedTuple):
    """Gradients of a rank's losses, summed over its examples.

    Attributes:
        dense: [size].
        shared_TS: of each task's loss, with respect to the weights that the balance compares them at; may be empty.
        rows: by group.
    """

    dense: tf.Tensor
    shared_TS: tf.Tensor
    rows: dict[str, tf.Tensor]


def route_keys(state: StepState, batch: Batch) -> Routed:
    """Sends a batch's keys to the ranks that own them. All ranks together."""
    return state.tables.route(state.ranker.keys(batch), _event_minutes(state, batch), "train")


def one_step(state: StepState, batch: Batch, routed: Routed, following: Batch) -> tuple[StepResult, Routed]:
    """Trains on a batch, and routes the keys of the next one meanwhile. All ranks together.

    Args:
        state: read and updated.
        batch: of this rank.
        routed: the batch's keys, by `route_keys`.
        following: the next batch; its keys suffice.
    """
    training = state.ranker.spec.training
    state.newest_minute.assign(tf.maximum(state.newest_minute, _newest_minute(state, batch)))
    pulled = state.tables.pull(routed, state.step + 1)
    # After this batch's rows, not before them: messages are served in order, and the dense part hides this one.
    with tf.control_dependencies([of_group.embeddings_uD for of_group in pulled.unique.values()]):
        next_routed = route_keys(state, following)
    with tf.name_scope("dense"):
        gradients, losses_T = _gradients(state, batch, pulled.unique)
    mine = tf.cast(state.ranker.batch_size(batch), tf.float32)
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
    row_gradients = state.tables.send_gradients(pulled, gradients.rows)

    def update() -> tf.Tensor:
        step = state.step.assign_add(1)
        context = StepContext(step, factor(training.schedule, state.schedule.at(step)))
        with tf.name_scope("dense_update"):
            state.dense.apply(clipped(dense_gradient, training.clip_gradient_norm), context.step, context.factor)
            state.balance.update(losses_T, tf.reshape(shared, gradients.shared_TS.shape))
        with tf.name_scope("update"):
            state.tables.apply(pulled, row_gradients, scale, context)
        return tf.identity(step)

    tf.cond(is_finite & (count > 0.0), update, lambda: tf.identity(state.step.read_value()))
    return StepResult(losses_T, count, is_finite), next_routed


def _gradients(state: StepState, batch: Batch, unique: dict[str, Unique]) -> tuple[_Gradients, tf.Tensor]:
    """Returns gradients of this rank's sums, and each task's sum of losses: [tasks]."""
    ranker = state.ranker
    flat = state.dense.flat.read_value()
    rows = {group: of_group.embeddings_uD for group, of_group in unique.items()}
    count = tf.cast(ranker.batch_size(batch), tf.float32)
    by_task = state.balance.needs_task_gradients
    with tf.GradientTape(watch_accessed_variables=False, persistent=by_task) as tape:
        tape.watch([flat, rows])
        weights = ranker.weights.unpack(flat)
        embeddings = {group: tf.gather(rows[group], unique[group].index_n) for group in unique}
        losses_T = ranker.loss_sums(ranker.logits(weights, batch, embeddings, _noise(state)), batch)
        total = state.balance.total(losses_T, count, weights)
        losses = tf.unstack(losses_T) if by_task else []
    dense, of_rows = tape.gradient(total, [flat, rows])
    shared = [weights[name] for name in ranker.shared]
    shared_TS = [tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(loss, shared)], 0) for loss in losses]
    none = tf.zeros([len(ranker.tasks), 0])
    of_rows = {group: tf.convert_to_tensor(gradient) for group, gradient in of_rows.items()}
    return _Gradients(dense, tf.stack(shared_TS) if by_task else none, of_rows), losses_T


def _noise(state: StepState) -> Noise | None:
    """Returns the dropout noise of the step under way; None for a model without dropout."""
    if state.ranker.spec.model.dropout == 0.0:
        return None
    return Noise.of_step(seed=state.ranker.spec.training.seed, step=state.step + 1, rank=state.rank)


def _event_minutes(state: StepState, batch: Batch) -> dict[str, tf.Tensor]:
    minutes = state.ranker.minutes(batch)
    if state.last_minute is None:
        return minutes
    return {group: tf.minimum(of_group, state.last_minute) for group, of_group in minutes.items()}


def _newest_minute(state: StepState, batch: Batch) -> tf.Tensor:
    """Returns the batch's newest event; the smallest int32 where there is none."""
    minutes = _event_minutes(state, batch)
    return tf.reduce_max([tf.int32.min, *(tf.reduce_max(of_group) for of_group in minutes.values())])
