"""One loss from the losses of the tasks: fixed weights, learned uncertainties, or GradNorm.

Everything is a function of sums over the global batch, so that it does not depend on the number of ranks.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.training import FixedBalance, GradNormBalance, UncertaintyBalance
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: T tasks, S floats of the shared weights.

_GRADNORM = "gradnorm_"


def _name(task: str) -> str:
    return f"loss_balance/{task}"


class Balance(tf.Module):
    """The balance of a ranker's tasks, and GradNorm's state.

    Attributes:
        weights_T: GradNorm's w_k, 1 at the start, of sum T.
        first_losses_T: L_k(0), each task's loss of the first step in which it had one; 0 before that.
    """

    def __init__(self, spec: RankerSpec):
        super().__init__(name="balance")
        self._balance = spec.training.loss_balance
        self._tasks = tuple(spec.tasks)
        self._task_weights_T = tf.constant([task.weight for task in spec.tasks.values()], tf.float32)
        self.weights_T = tf.Variable(tf.ones_like(self._task_weights_T), trainable=False, name="weights")
        self.first_losses_T = tf.Variable(tf.zeros_like(self._task_weights_T), trainable=False, name="first_losses")

    @property
    def needs_task_gradients(self) -> bool:
        """Whether `update` needs each task's own gradient of the shared weights."""
        return isinstance(self._balance, GradNormBalance)

    def total(self, sums_T: tf.Tensor, count: tf.Tensor, weights: Weights) -> tf.Tensor:
        """Returns the training objective, summed over a rank's examples.

        Fixed: sum_k w_k L_k with the spec's w_k. Uncertainty: sum_k exp(-s_k) w_k L_k + s_k / 2. GradNorm: sum_k b_k
        w_k L_k with the b_k of this step.
        Reference: Kendall, Gal, Cipolla: Multi-task learning using uncertainty to weigh losses, CVPR 2018, equation 10,
        with s = log sigma^2.

        Args:
            sums_T: each task's loss, summed over the rank's examples.
            count: the number of these, float32.
            weights: dense weights by name.
        """
        sums_T = sums_T * self._task_weights_T
        match self._balance:
            case FixedBalance():
                return tf.reduce_sum(sums_T)
            case UncertaintyBalance():
                s_T = tf.concat([weights[_name(task)] for task in self._tasks], 0)
                # s / 2 for each example: divided by the number of all ranks' examples, it counts once.
                return tf.reduce_sum(tf.exp(-s_T) * sums_T) + count * tf.reduce_sum(s_T) / 2.0
            case GradNormBalance():
                return tf.reduce_sum(self.weights_T * sums_T)
            case _:
                assert_never(self._balance)

    def update(self, losses_T: tf.Tensor, gradients_TS: tf.Tensor) -> None:
        """Updates GradNorm's weights after a step; does nothing for other balances.

        G_k = b_k |gradient of L_k|; r_k = (L_k / L_k(0)) / mean of these; b_k <- b_k - rate * sign(G_k - mean(G)
        r_k^alpha) |gradient of L_k|, the gradient of |G_k - mean(G) r_k^alpha| whose second term is a constant; then
        scaled to the sum T. No weight falls below 0.
        Reference: Chen et al.: GradNorm, ICML 2018, equations 1 and 2, algorithm 1.

        Args:
            losses_T: mean loss over the global batch.
            gradients_TS: gradients of these losses by the weights that all tasks share: [tasks, floats].
        """
        if not isinstance(self._balance, GradNormBalance):
            return
        first_T = tf.where(self.first_losses_T > 0.0, self.first_losses_T, losses_T)
        norms_T = self._task_weights_T * tf.norm(gradients_TS, axis=1)
        scaled_T = self.weights_T * norms_T
        ratios_T = tf.where(first_T > 0.0, tf.math.divide_no_nan(losses_T, first_T), 1.0)
        rates_T = tf.math.divide_no_nan(ratios_T, tf.reduce_mean(ratios_T))
        targets_T = tf.reduce_mean(scaled_T) * tf.pow(rates_T, self._balance.alpha)
        moved_T = self.weights_T - self._balance.learning_rate * tf.sign(scaled_T - targets_T) * norms_T
        moved_T = tf.maximum(moved_T, 0.0)
        total = tf.reduce_sum(moved_T)
        new_T = tf.where(total > 0.0, tf.math.divide_no_nan(moved_T * len(self._tasks), total), self.weights_T)
        self.first_losses_T.assign(first_T)
        self.weights_T.assign(new_T)

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Returns GradNorm's state by task: [weight, first loss]; nothing for other balances."""
        if not self.needs_task_gradients:
            return {}
        both_T2 = np.stack([self.weights_T.numpy(), self.first_losses_T.numpy()], 1)
        return {f"{_GRADNORM}{task}": both for task, both in zip(self._tasks, both_T2, strict=True)}

    def restore(self, extra: Mapping[str, NDArray[Any]]) -> None:
        """Restores `snapshot`; a task that it lacks keeps its initial state."""
        start = np.array([1.0, 0.0], np.float32)
        both_T2 = np.stack([extra.get(f"{_GRADNORM}{task}", start) for task in self._tasks])
        self.weights_T.assign(both_T2[:, 0])
        self.first_losses_T.assign(both_T2[:, 1])


def is_of_balance(name: str) -> bool:
    """Says whether an array of a snapshot is one of `Balance.snapshot`."""
    return name.startswith(_GRADNORM)
