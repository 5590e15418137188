"""One training step: gradients of a rank's batch, and the resulting update of the dense weights.

`in_step` and `served` combine the two: they differ in where rows are stored and how the dense gradient is used.
"""

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

import tensorflow as tf

from sangam.trainer_module import collectives
from sangam.trainer_module.dense import choice, fused
from sangam.trainer_module.dense.average import Average
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.optimizers import DenseState, clipped
from sangam.trainer_module.embedded import Indexed
from sangam.trainer_module.embedding.row_optimizers import StepContext
from sangam.trainer_module.embedding.sharded_tables import Unique
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.learning_rate import StepsOfSchedule, factor
from sangam.trainer_module.losses import Balance
from sangam.trainer_module.ranker import Ranker

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepState:
    """State that a step reads and updates, besides its batch.

    Attributes:
        ranker: the model.
        dense: its dense weights and their optimizer.
        balance: combines the tasks' losses into one.
        step: number of updates so far, int64.
        schedule: the schedule of learning rates.
        newest_minute: newest event that this rank has trained on, minutes since 1970, int32.
        last_minute: upper bound of event times; None: no bound.
        rank: the rank that holds this state.
        average: average of the dense weights over steps; None without one.
        full_batch: number of examples in all ranks' full batch; a smaller batch moves the model in proportion. None:
            every batch moves the model equally.
        epoch: number of the epoch, int64.
        layers: who computes each layer; empty before a step is traced.
    """

    ranker: Ranker
    dense: DenseState
    balance: Balance
    step: tf.Variable
    schedule: StepsOfSchedule
    newest_minute: tf.Variable
    last_minute: int | None
    rank: int
    epoch: tf.Variable
    average: Average | None = None
    full_batch: int | None = None
    layers: dict[str, choice.Answer] = field(default_factory=dict)


class StepResult(NamedTuple):
    """The outcome of a step: of all ranks together, or of one rank if each trains at its own pace.

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
        shared_TS: gradients of each task's loss with respect to the weights that the balance compares; may be empty.
        rows: gradients of the unique keys' embeddings by group.
    """

    dense: tf.Tensor
    shared_TS: tf.Tensor
    rows: dict[str, tf.Tensor]


class Local(NamedTuple):
    """A rank's results for its batch.

    Attributes:
        message: [n], the dense part as one vector of sums over examples: dense gradient, shared gradients, losses,
            number of examples, and 1 if a gradient was not finite.
        rows: gradients of the unique keys' embeddings by group: [u, dim].
    """

    message: tf.Tensor
    rows: dict[str, tf.Tensor]


class Summed(NamedTuple):
    """The results for the global batch.

    Attributes:
        result: the result of the step.
        scale: factor of the rows' gradients: 1 / examples, or 1 / examples of a full batch; 0 without examples.
        dense: mean gradient: [size].
        shared_TS: mean gradients of the weights at which the balance compares the tasks.
    """

    result: StepResult
    scale: tf.Tensor
    dense: tf.Tensor
    shared_TS: tf.Tensor


def local_step(state: StepState, batch: Batch, unique: dict[str, Unique]) -> Local:
    """Computes losses and gradients of a rank's batch; updates nothing but the newest minute."""
    state.newest_minute.assign(tf.maximum(state.newest_minute, newest_minute(state, batch)))
    # The owners of the rows wait for the gradient of the first layer's inputs: it is sent while the rest is computed.
    placement, mine = state.ranker.placement, tf.cast(state.ranker.batch_size(batch), tf.float32)
    with placement.dense():
        native = fused.in_training(on_host=placement.accelerator is None, are_inputs_first=collectives.are_apart())
        with tf.name_scope("dense"), native, choice.told() as answers:
            gradients, losses_T = _gradients(state, batch, unique, mine)
        state.layers.update(answers)
        if state.rank == 0:
            _LOG.info("%s", choice.line(answers, state.ranker.weights.weights))
        rows_are_finite = [tf.reduce_all(tf.math.is_finite(of_group)) for of_group in gradients.rows.values()]
        not_finite = 1.0 - tf.cast(tf.reduce_all(tf.stack([True, *rows_are_finite])), tf.float32)
        # Sums, not means: the ranks' batches may differ in size. One message has them all and tells every rank whether
        # to skip the step: a sum that contains NaN or infinity is not finite on any rank.
        shared = tf.reshape(gradients.shared_TS, [-1])
        return Local(tf.concat([gradients.dense, shared, losses_T, [mine, not_finite]], 0), gradients.rows)


def of_all(state: StepState, message: tf.Tensor) -> Summed:
    """Parses a message that was summed over the ranks, where the dense layers are."""
    with state.ranker.placement.dense():
        return _parsed(state, message)


def _parsed(state: StepState, message: tf.Tensor) -> Summed:
    tasks, size = len(state.ranker.tasks), state.ranker.weights.size
    count = message[-2]
    is_finite = tf.reduce_all(tf.math.is_finite(message)) & tf.equal(message[-1], 0.0)
    scale = tf.math.reciprocal_no_nan(count)
    shared = message.shape[0] - 2 - size - tasks
    dense, shared, losses_T = tf.split(message[:-2] * scale, [size, shared, tasks])
    shared_TS = tf.reshape(shared, [tasks, -1])
    return Summed(StepResult(losses_T, count, is_finite), scale * _share(state, count), dense, shared_TS)


def _share(state: StepState, count: tf.Tensor) -> tf.Tensor | float:
    """Returns the batch's share of a full batch, at most 1, if smaller batches count less; else 1."""
    return 1.0 if state.full_batch is None else tf.minimum(count / state.full_batch, 1.0)


def factor_at(state: StepState, step: tf.Tensor) -> tf.Tensor | float:
    """Returns the factor of the learning rates at a training step."""
    return factor(state.ranker.spec.training.schedule, state.schedule.at(step))


def update_dense(state: StepState, summed: Summed) -> StepContext:
    """Counts a step and updates the dense weights; returns the context for the update of the rows."""
    step = state.step.assign_add(1)
    context = StepContext(step, factor_at(state, step))
    with tf.name_scope("dense_update"), state.ranker.placement.dense():
        longest = state.ranker.spec.training.clip_gradient_norm
        # Scale the rate, not the gradient: Adam normalizes the gradient's scale away.
        rate = context.factor * _share(state, summed.result.count)
        state.dense.apply(clipped(summed.dense, longest), context.step, rate)
        if state.average is not None:
            state.average.follow(state.dense.flat, state.schedule.at(context.step))
        state.balance.update(summed.result.losses_T, summed.shared_TS)
    return context


def _gradients(
    state: StepState, batch: Batch, unique: dict[str, Unique], count: tf.Tensor
) -> tuple[_Gradients, tf.Tensor]:
    """Returns gradients of this rank's sums, and each task's sum of losses: [tasks]."""
    ranker = state.ranker
    flat = state.dense.flat.read_value()
    rows = {group: of_group.embeddings_uD for group, of_group in unique.items()}
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
    """Returns the dropout noise of the current step; None for a model without dropout."""
    if not state.ranker.has_dropout:
        return None
    return Noise.of_step(seed=state.ranker.spec.training.seed, step=state.step + 1, rank=state.rank)


def event_minutes(state: StepState, batch: Batch) -> dict[str, tf.Tensor]:
    """Returns `Ranker.minutes`, capped at `last_minute`."""
    minutes = state.ranker.minutes(batch)
    if state.last_minute is None:
        return minutes
    return {group: tf.minimum(of_group, state.last_minute) for group, of_group in minutes.items()}


def newest_minute(state: StepState, batch: Batch) -> tf.Tensor:
    """Returns the minute of the batch's newest event; the smallest int32 without events."""
    minutes = event_minutes(state, batch)
    return tf.reduce_max([tf.int32.min, *(tf.reduce_max(of_group) for of_group in minutes.values())])
