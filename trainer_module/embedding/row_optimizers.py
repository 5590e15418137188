"""Optimizers of embedding rows: pure functions of embeddings, slots and summed gradients.

Only rows of the batch move ("lazy"): a row's slots do not change while its id is not seen. Hyperparameters are a
number, or [n, 1] where the tables of a group differ.
"""

from typing import Any, NamedTuple, Protocol, assert_never, runtime_checkable

import tensorflow as tf

from sangam.schemas.derived.groups import Group
from sangam.schemas.spec.optimizers import Adagrad, Adam, Ftrl, RowwiseAdagrad, Sgd
from sangam.trainer_module.dense import fused
from sangam.trainer_module.embedding.per_table import PerTable

Number = Any
"""A float, or a float32 tensor that broadcasts."""

_SMALLEST_RATE = 1e-20


class StepContext(NamedTuple):
    """The step under way.

    Attributes:
        step: global step, from 1; int64 scalar.
        factor: factor of all learning rates.
    """

    step: tf.Tensor
    factor: Number = 1.0


class RowUpdate(Protocol):
    """The update of rows in a step."""

    def start(self, keys: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """Returns the slots of new rows: keys [n], embeddings [n, dim] to [n, slot floats]."""

    def __call__(
        self, keys: tf.Tensor, w: tf.Tensor, slots: tf.Tensor, g: tf.Tensor, context: StepContext
    ) -> tuple[tf.Tensor, ...]:
        """Returns the new embeddings and, as one or more tensors side by side, the new slots.

        Args:
            keys: [n] int64, each once.
            w: [n, dim] float32.
            slots: [n, slot floats] float32.
            g: [n, dim], duplicates of a key already summed.
            context: the step, and the factor of its learning rates.
        """


@runtime_checkable
class InPlaceUpdate(Protocol):
    """An update that can change rows where they lie, instead of copies that are written back."""

    @property
    def is_in_place(self) -> bool:
        """Whether it is possible: on one thread of a CPU, if all tables of the rows have one setting."""

    def apply(self, rows: tf.Variable, numbers: tf.Tensor, g: tf.Tensor, context: StepContext) -> tf.Operation:
        """Updates rows.

        Args:
            rows: [any, width].
            numbers: [n] int64, each once but 0.
            g: [n, dim].
            context: see `RowUpdate`.
        """


class SgdUpdate:
    """w <- w - lr * g."""

    def __init__(self, group: Group):
        self._rate = _hyperparameter(group, "learning_rate")

    def start(self, keys: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        del keys
        return w[:, :0]

    def __call__(
        self, keys: tf.Tensor, w: tf.Tensor, slots: tf.Tensor, g: tf.Tensor, context: StepContext
    ) -> tuple[tf.Tensor, ...]:
        """See `RowUpdate`."""
        del slots
        return (w - context.factor * self._rate(keys) * g,)


class AdagradUpdate:
    """a <- a + g^2; w <- w - lr * g / sqrt(a).

    Reference: Duchi, Hazan, Singer: Adaptive subgradient methods, JMLR 2011, figure 1 (diagonal).
    """

    def __init__(self, group: Group):
        self._rate = _hyperparameter(group, "learning_rate")
        self._start = _hyperparameter(group, "initial_accumulator")

    def start(self, keys: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        return tf.zeros_like(w) + self._start(keys)

    def __call__(
        self, keys: tf.Tensor, w: tf.Tensor, slots: tf.Tensor, g: tf.Tensor, context: StepContext
    ) -> tuple[tf.Tensor, ...]:
        """See `RowUpdate`."""
        accumulator = slots + tf.square(g)
        return w - context.factor * self._rate(keys) * g * tf.math.rsqrt(accumulator), accumulator


class RowwiseAdagradUpdate:
    """a <- a + mean(g^2); w <- w - lr * g / sqrt(a), with one a for a row.

    Reference: Gupta et al.: Training recommender systems at scale: communication-efficient model and data parallelism,
    2020, section 2; FBGEMM's EXACT_ROWWISE_ADAGRAD.
    """

    def __init__(self, group: Group):
        self._rate = _hyperparameter(group, "learning_rate")
        self._start = _hyperparameter(group, "initial_accumulator")

    def start(self, keys: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        return tf.zeros_like(w[:, :1]) + self._start(keys)

    def __call__(
        self, keys: tf.Tensor, w: tf.Tensor, slots: tf.Tensor, g: tf.Tensor, context: StepContext
    ) -> tuple[tf.Tensor, ...]:
        """See `RowUpdate`."""
        accumulator = slots + tf.reduce_mean(tf.square(g), axis=1, keepdims=True)
        return w - context.factor * self._rate(keys) * tf.math.rsqrt(accumulator) * g, accumulator

    @property
    def is_in_place(self) -> bool:
        """See `InPlaceUpdate`."""
        return fused.is_possible() and self._rate.same is not None

    def apply(self, rows: tf.Variable, numbers: tf.Tensor, g: tf.Tensor, context: StepContext) -> tf.Operation:
        """See `InPlaceUpdate`."""
        return fused.rowwise_adagrad_rows(rows, numbers, g, context.factor * self._rate.same)


class AdamUpdate:
    """See `adam`. The bias correction uses the global step."""

    def __init__(self, group: Group):
        self._rate = _hyperparameter(group, "learning_rate")
        self._beta1 = _hyperparameter(group, "beta1")
        self._beta2 = _hyperparameter(group, "beta2")
        self._epsilon = _hyperparameter(group, "epsilon")

    def start(self, keys: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        del keys
        return tf.zeros_like(tf.concat([w, w], 1))

    def __call__(
        self, keys: tf.Tensor, w: tf.Tensor, slots: tf.Tensor, g: tf.Tensor, context: StepContext
    ) -> tuple[tf.Tensor, ...]:
        """See `RowUpdate`."""
        m, v = tf.split(slots, 2, axis=1)
        betas = self._beta1(keys), self._beta2(keys)
        rate = context.factor * self._rate(keys)
        return adam(w, m, v, g, context.step, rate=rate, betas=betas, epsilon=self._epsilon(keys))

    @property
    def is_in_place(self) -> bool:
        """See `InPlaceUpdate`."""
        settings = (self._rate, self._beta1, self._beta2, self._epsilon)
        return fused.is_possible() and all(each.same is not None for each in settings)

    def apply(self, rows: tf.Variable, numbers: tf.Tensor, g: tf.Tensor, context: StepContext) -> tf.Operation:
        """See `InPlaceUpdate`."""
        rate, beta1, beta2, epsilon = (each.same for each in (self._rate, self._beta1, self._beta2, self._epsilon))
        assert rate is not None
        assert beta1 is not None
        assert beta2 is not None
        assert epsilon is not None
        corrected = adam_rate(context.step, rate=context.factor * rate, betas=(beta1, beta2))
        return fused.adam_rows(rows, numbers, g, corrected, (beta1, beta2), epsilon)


def adam(
    w: tf.Tensor,
    m: tf.Tensor,
    v: tf.Tensor,
    g: tf.Tensor,
    step: tf.Tensor,
    *,
    rate: Number,
    betas: tuple[Number, Number],
    epsilon: Number,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns (w, m, v) after m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2; w <- w - lr_t m / (sqrt(v) + eps).

    All tensors have one shape; `step` counts from 1. lr_t = lr sqrt(1 - b2^t) / (1 - b1^t).
    Reference: Kingma, Ba: Adam, ICLR 2015, algorithm 1, in the form of its section 2's last paragraph.

    The first step has the length of the rate for any gradient:

    >>> start, zero, step = tf.constant([1.0]), tf.zeros([1]), tf.constant(1, tf.int64)
    >>> w, m, v = adam(start, zero, zero, tf.constant([0.5]), step, rate=0.25, betas=(0.9, 0.999), epsilon=0.0)
    >>> round(float(w[0]), 4)
    0.75
    """
    beta1, beta2 = betas
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * tf.square(g)
    return w - adam_rate(step, rate=rate, betas=betas) * m / (tf.sqrt(v) + epsilon), m, v


def adam_rate(step: tf.Tensor, *, rate: Number, betas: tuple[Number, Number]) -> tf.Tensor:
    """Returns lr_t of `adam`."""
    t, (beta1, beta2) = tf.cast(step, tf.float32), betas
    return rate * tf.sqrt(1.0 - tf.pow(beta2, t)) / (1.0 - tf.pow(beta1, t))


class FtrlUpdate:
    """n' = n + g^2; c' = (beta + sqrt(n')) / lr + l2; z' = z + g - (c' - c) w; w' = the minimizer for z' and c'.

    w' = 0 where |z'| <= l1, else -(z' - sign(z') l1) / c'. A new row's n is 0 and its z such that its starting vector
    is the minimizer: it keeps its random start until gradients move it.

    The curvature c of the row's last update is not kept: lr may have been another then. Where w is not 0, w is the
    minimizer: z + c w = sign(z) l1, so z' = sign(z) l1 + g - c' w. Where w is 0, c does not matter.
    Reference: McMahan et al.: Ad click prediction: a view from the trenches, KDD 2013, algorithm 1.
    """

    def __init__(self, group: Group):
        self._rate = _hyperparameter(group, "learning_rate")
        self._beta = _hyperparameter(group, "beta")
        self._l1 = _hyperparameter(group, "l1")
        self._l2 = _hyperparameter(group, "l2")

    def start(self, keys: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`: [z | n]."""
        z = -w * (self._beta(keys) / self._rate(keys) + self._l2(keys)) - tf.sign(w) * self._l1(keys)
        return tf.concat([z, tf.zeros_like(w)], 1)

    def __call__(
        self, keys: tf.Tensor, w: tf.Tensor, slots: tf.Tensor, g: tf.Tensor, context: StepContext
    ) -> tuple[tf.Tensor, ...]:
        """See `RowUpdate`."""
        # The formula divides by the rate: 0 becomes one so small that nothing moves.
        rate, l1 = tf.maximum(context.factor * self._rate(keys), _SMALLEST_RATE), self._l1(keys)
        z, n = tf.split(slots, 2, axis=1)
        new_n = n + tf.square(g)
        curvature = (self._beta(keys) + tf.sqrt(new_n)) / rate + self._l2(keys)
        new_z = tf.where(tf.equal(w, 0.0), z, tf.sign(z) * l1 - curvature * w) + g
        shrunk = tf.sign(new_z) * tf.maximum(tf.abs(new_z) - l1, 0.0)
        return -shrunk / curvature, new_z, new_n


class DecayedUpdate:
    """Another update, and w <- w - lr * decay * w, of w before the step.

    Reference: Loshchilov, Hutter: Decoupled weight decay regularization, ICLR 2019, algorithm 2.
    """

    def __init__(self, update: RowUpdate, group: Group):
        self._update, self._rate = update, _hyperparameter(group, "learning_rate")
        self._decay = PerTable(group.tags, lambda table: group.tables[table].weight_decay)

    def start(self, keys: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        """See `RowUpdate`."""
        return self._update.start(keys, w)

    def __call__(
        self, keys: tf.Tensor, w: tf.Tensor, slots: tf.Tensor, g: tf.Tensor, context: StepContext
    ) -> tuple[tf.Tensor, ...]:
        """See `RowUpdate`."""
        moved, *new_slots = self._update(keys, w, slots, g, context)
        return (moved - context.factor * self._rate(keys) * self._decay(keys) * w, *new_slots)


def _hyperparameter(group: Group, name: str) -> PerTable:
    return PerTable(group.tags, lambda table: getattr(group.optimizers[table], name))


def row_update(group: Group) -> RowUpdate:
    """Returns the update of a group's rows."""
    update = _update_of_optimizer(group)
    return DecayedUpdate(update, group) if any(table.weight_decay for table in group.tables.values()) else update


def _update_of_optimizer(group: Group) -> RowUpdate:
    optimizer = next(iter(group.optimizers.values()))
    match optimizer:
        case Sgd():
            return SgdUpdate(group)
        case Adagrad():
            return AdagradUpdate(group)
        case RowwiseAdagrad():
            return RowwiseAdagradUpdate(group)
        case Adam():
            return AdamUpdate(group)
        case Ftrl():
            return FtrlUpdate(group)
        case _:
            assert_never(optimizer)
