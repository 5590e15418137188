"""Adaptive information transfer: in a chain of tasks, each sees what the one before passes on.

Reference: Xi et al.: Modeling the sequential dependence among audience multi-step conversions with multi-task learning
in targeted display advertising, KDD 2021; where the paper leaves layers open, they follow the authors' program.
"""

from collections.abc import Sequence

import tensorflow as tf

from schemas.spec.models import Aitm
from trainer_module.dense.layers import Dense, Heads, ParallelMlps
from trainer_module.dense.members import Factors
from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Blocks, Layer, Weight, Weights

# Shape suffixes: B batch, I inputs, H width of a tower's output, T tasks.


class AitmModel:
    """z_1 = q_1, z_t = AIT(p_{t-1}, q_t) with p_t = g_t(z_t), g a layer with relu, and y_t = sigmoid(w_t z_t + b_t).

    q_t is the tower's output.
    """

    def __init__(self, spec: Aitm, *, inputs: Blocks, tasks: Sequence[str]):
        chain, width, members = spec.chain, spec.tower_units[-1], spec.members
        self._chain, self._calibrator_weight = chain, spec.calibrator_weight
        self._place_in_chain = [chain.index(task) for task in tasks]
        self._place_in_tasks = [tasks.index(task) for task in chain]
        self._towers = ParallelMlps("towers", inputs, spec.tower_units, chain, dropout=spec.dropout, members=members)
        self._transfers = [
            Dense(f"transfers/{task}", width, width, relu=True, dropout=spec.dropout, members=members)
            for task in chain[:-1]
        ]
        self._attentions = [Transfer(f"attentions/{task}", width, members) for task in chain[1:]]
        self._heads = Heads(chain, width, members=members)
        layers: tuple[Layer, ...] = (self._towers, *self._transfers, *self._attentions, self._heads)
        self.weights = tuple(weight for layer in layers for weight in layer.weights)
        self.shared: tuple[str, ...] = ()

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
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

    def __init__(self, name: str, width: int, members: int = 1):
        self._matrix, self._width = f"{name}/w", width
        self._factors = Factors(self._matrix, width, 3 * width, members)
        self.weights = (Weight(self._matrix, (width, 3 * width), columns=3), *self._factors.weights)

    def __call__(self, weights: Weights, passed_BH: tf.Tensor, own_BH: tf.Tensor) -> tf.Tensor:
        """Returns [batch, width], given what the task before passes on and the tower's output."""
        both = tf.reshape(tf.stack([passed_BH, own_BH], axis=1), [-1, self._width])
        product = self._factors.product(weights, both, weights[self._matrix])
        projected = tf.reshape(product, [-1, 2, 3, self._width])
        values_B2H, queries_B2H, keys_B2H = tf.unstack(projected, axis=2)
        scores_B2 = tf.reduce_sum(queries_B2H * keys_B2H, axis=2) / tf.cast(self._width**0.5, projected.dtype)
        return tf.reduce_sum(tf.nn.softmax(scores_B2)[:, :, None] * values_B2H, axis=1)
