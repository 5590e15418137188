"""Adaptive information transfer: in a chain of tasks, each sees an output of the task before.

Reference: Xi et al.: Modeling the sequential dependence among audience multi-step conversions with multi-task learning
in targeted display advertising, KDD 2021; where the paper leaves layers open, they follow the authors' program.
"""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.spec.models import Aitm
from sangam.trainer_module.dense.layers import Dense, Heads, ParallelMlps, linear
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: B batch, I inputs, H width of a tower's output, T tasks.


class AitmModel:
    """z_1 = q_1, z_t = AIT(p_{t-1}, q_t) with p_t = g_t(z_t), g a layer with relu, and y_t = sigmoid(w_t z_t + b_t).

    q_t is the tower's output.
    """

    def __init__(self, spec: Aitm, tasks: Sequence[str]):
        chain, self._calibrator_weight = spec.chain, spec.calibrator_weight
        self._place_in_chain = [chain.index(task) for task in tasks]
        self._place_in_tasks = [tasks.index(task) for task in chain]
        self._towers = ParallelMlps("towers", len(spec.tower_units), chain, dropout=spec.dropout)
        self._transfers = [Dense(f"transfers/{task}", relu=True, dropout=spec.dropout) for task in chain[:-1]]
        self._attentions = [Transfer(f"attentions/{task}", spec.tower_units[-1]) for task in chain[1:]]
        self._heads = Heads(chain)
        self.shared: tuple[str, ...] = ()

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        first_BH, *others = self._towers(weights, x_BI, noise)
        states = [first_BH]
        for transfer, attention, own_BH in zip(self._transfers, self._attentions, others, strict=True):
            passed_BH = transfer(weights, states[-1], noise)
            states.append(attention(weights, passed_BH, own_BH))
        return tf.gather(self._heads(weights, states), self._place_in_chain, axis=1)

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """Returns alpha sum_t max(y_t - y_{t-1}, 0): the behavioral expectation calibrator, [batch]."""
        predicted_BT = tf.sigmoid(tf.gather(logits_BT, self._place_in_tasks, axis=1))
        return self._calibrator_weight * tf.reduce_sum(tf.nn.relu(predicted_BT[:, 1:] - predicted_BT[:, :-1]), axis=1)


class Transfer:
    """AIT(p, q) = sum over u in {p, q} of w_u h_1(u), w = softmax(<h_2(u), h_3(u)> / sqrt(H)).

    Each h is a matrix; the three are one product.
    """

    def __init__(self, name: str, width: int):
        self._matrix, self._width = f"{name}/w", width

    def __call__(self, weights: Weights, passed_BH: tf.Tensor, own_BH: tf.Tensor) -> tf.Tensor:
        """Returns [batch, width], given the output of the task before and the tower's."""
        both = tf.reshape(tf.stack([passed_BH, own_BH], axis=1), [-1, self._width])
        projected = tf.reshape(linear(weights, self._matrix, both), [-1, 2, 3, self._width])
        values_B2H, queries_B2H, keys_B2H = tf.unstack(projected, axis=2)
        scores_B2 = tf.reduce_sum(queries_B2H * keys_B2H, axis=2) / tf.cast(self._width**0.5, projected.dtype)
        return tf.reduce_sum(tf.nn.softmax(scores_B2)[:, :, None] * values_B2H, axis=1)
