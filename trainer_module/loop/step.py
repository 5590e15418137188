"""One training step: gradients of a rank's batch, and the update of the dense weights that follows from them.

`in_step` and `served` join the two: they differ in where the rows are and in what becomes of the dense gradient.
"""

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from trainer_module import collectives
from trainer_module.dense import fused
from trainer_module.dense.average import Average
from trainer_module.dense.noise import Noise
from trainer_module.dense.optimizers import DenseState, clipped
from trainer_module.embedded import Indexed
from trainer_module.embedding.row_optimizers import StepContext
from trainer_module.embedding.sharded_tables import Unique
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
        balance: how the tasks' losses become one.
        step: updates so far, int64.
        schedule: of the learning rates.
        newest_minute: newest event that this rank has trained on, minutes since 1970, int32.
        last_minute: an event after it counts as at it; None: no limit.
        rank: the rank that holds this state.
        average: of the dense weights over steps; None without.
        full_batch: examples of all ranks' full batch; a batch of fewer moves the model in proportion. None: any batch
            moves it as much as a full one.
    """

    ranker: Ranker
    dense: DenseState
    balance: Balance
    step: tf.Variable
    schedule: StepsOfSchedule
    newest_minute: tf.Variable
    last_minute: int | None
    rank: int
    average: Average | None = None
    full_batch: int | None = None


class StepResult(NamedTuple):
    """The outcome of a step: of all ranks together, or of one where each trains at its own pace.

    Attributes:
        losses_T: each task's mean loss over the batch.
        count: examples in the batch.
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


class Local(NamedTuple):
    """What a rank computes of its batch.

    Attributes:
        message: [n], its dense part as one vector of sums, which add up over ranks: dense gradient, shared gradients,
            losses, examples, and 1 where a gradient was not finite.
        rows: by group, gradients of the unique keys' embeddings: [u, dim].
    """

    message: tf.Tensor
    rows: dict[str, tf.Tensor]


class Summed(NamedTuple):
    """The global batch.

    Attributes:
        result: of the step.
        scale: of the rows' gradients: 1 / examples, or 1 / examples of a full batch; 0 without any.
        dense: [size], mean gradient.
        shared_TS: mean gradients of the weights that the balance compares the tasks at.
    """

    result: StepResult
    scale: tf.Tensor
    dense: tf.Tensor
    shared_TS: tf.Tensor


def local_step(state: StepState, batch: Batch, unique: dict[str, Unique]) -> Local:
    """Computes losses and gradients of a rank's batch; updates nothing but the newest minute."""
    state.newest_minute.assign(tf.maximum(state.newest_minute, newest_minute(state, batch)))
    # The owners of the rows wait for the gradient of the first layer's inputs: it travels meanwhile.
    with tf.name_scope("dense"), fused.in_training(are_inputs_first=collectives.are_apart()):
        gradients, losses_T = _gradients(state, batch, unique)
    mine = tf.cast(state.ranker.batch_size(batch), tf.float32)
    rows_are_finite = [tf.reduce_all(tf.math.is_finite(of_group)) for of_group in gradients.rows.values()]
    not_finite = 1.0 - tf.cast(tf.reduce_all(tf.stack([True, *rows_are_finite])), tf.float32)
    # Sums, not means: the ranks' batches may differ in size. One message carries them all, and with them whether any
    # rank must skip the step: a sum with NaN or infinity in it is not finite on all ranks.
    shared = tf.reshape(gradients.shared_TS, [-1])
    return Local(tf.concat([gradients.dense, shared, losses_T, [mine, not_finite]], 0), gradients.rows)


def of_all(state: StepState, message: tf.Tensor) -> Summed:
    """Reads a message that has been summed over the ranks."""
    tasks, size = len(state.ranker.tasks), state.ranker.weights.size
    count = message[-2]
    is_finite = tf.reduce_all(tf.math.is_finite(message)) & tf.equal(message[-1], 0.0)
    scale = tf.math.reciprocal_no_nan(count)
    shared = message.shape[0] - 2 - size - tasks
    dense, shared, losses_T = tf.split(message[:-2] * scale, [size, shared, tasks])
    shared_TS = tf.reshape(shared, [tasks, -1])
    return Summed(StepResult(losses_T, count, is_finite), scale * _share(state, count), dense, shared_TS)


def _share(state: StepState, count: tf.Tensor) -> tf.Tensor | float:
    """Returns the share of a full batch that counts: all, or where short ones count less, as many as there are."""
    return 1.0 if state.full_batch is None else tf.minimum(count / state.full_batch, 1.0)


def factor_at(state: StepState, step: tf.Tensor) -> tf.Tensor | float:
    """Returns the factor of the learning rates at a step of training."""
    return factor(state.ranker.spec.training.schedule, state.schedule.at(step))


def update_dense(state: StepState, summed: Summed) -> StepContext:
    """Counts a step and updates the dense weights; returns the step for the update of the rows."""
    step = state.step.assign_add(1)
    context = StepContext(step, factor_at(state, step))
    with tf.name_scope("dense_update"):
        longest = state.ranker.spec.training.clip_gradient_norm
        # The rate, not the gradient: Adam would take a smaller gradient for one of a flatter loss.
        rate = context.factor * _share(state, summed.result.count)
        state.dense.apply(clipped(summed.dense, longest), context.step, rate)
        if state.average is not None:
            state.average.follow(state.dense.flat, state.schedule.at(context.step))
        state.balance.update(summed.result.losses_T, summed.shared_TS)
    return context


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
        embeddings = {group: Indexed(rows[group], unique[group].index_n) for group in unique}
        losses_T = ranker.losses(weights, batch, embeddings, _noise(state))
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
    if not state.ranker.has_dropout:
        return None
    return Noise.of_step(seed=state.ranker.spec.training.seed, step=state.step + 1, rank=state.rank)


def event_minutes(state: StepState, batch: Batch) -> dict[str, tf.Tensor]:
    """Returns `Ranker.minutes`, none later than `last_minute`."""
    minutes = state.ranker.minutes(batch)
    if state.last_minute is None:
        return minutes
    return {group: tf.minimum(of_group, state.last_minute) for group, of_group in minutes.items()}


def newest_minute(state: StepState, batch: Batch) -> tf.Tensor:
    """Returns the batch's newest event; the smallest int32 where there is none."""
    minutes = event_minutes(state, batch)
    return tf.reduce_max([tf.int32.min, *(tf.reduce_max(of_group) for of_group in minutes.values())])
