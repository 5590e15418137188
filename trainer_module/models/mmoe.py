"""Multi-gate mixture of experts.

Reference: Ma et al.: Modeling task relationships in multi-task learning with multi-gate mixture-of-experts, KDD 2018.
"""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.spec.models import Mmoe
from sangam.trainer_module.dense.layers import Dense, ParallelMlps, Towers, mixtures
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.models.ranking_model import NoAuxiliary

# Shape suffixes: B batch, I inputs, E experts, H width of an expert's output, T tasks.


class MmoeModel(NoAuxiliary):
    """y_k = h_k(f_k(x)), f_k(x) = sum_e softmax(W_k x)_e f_e(x): equations 5 to 7 of the paper."""

    def __init__(self, spec: Mmoe, tasks: Sequence[str]):
        self._num_experts, self._num_tasks, self._top_k = spec.num_experts, len(tasks), spec.top_k
        self._experts = ParallelMlps("experts", len(spec.expert_units), spec.num_experts, dropout=spec.dropout)
        # The gates of all tasks are one product.
        self._expert_gates = Dense("expert_gates", relu=False)
        self._towers = Towers(tasks, len(spec.tower_units), dropout=spec.dropout)
        self.shared = tuple(dict.fromkeys(self._experts.last.values()))

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        experts, gates_BO = self._experts.with_gates(weights, x_BI, self._expert_gates, noise)
        gates_BTE = tf.reshape(gates_BO, [-1, self._num_tasks, self._num_experts])
        if self._top_k is not None:
            gates_BTE = keep_top(gates_BTE, self._top_k)
        return self._towers(weights, mixtures(tf.nn.softmax(gates_BTE), experts), noise)


def keep_top(gates: tf.Tensor, k: int) -> tf.Tensor:
    """Returns [..., experts] with -inf for all but the k largest: softmax gives these 0, and no gradient.

    Of equal ones the first are kept.

    Reference: Shazeer et al.: Outrageously large neural networks, ICLR 2017, equations 3 and 5; without the noise of
    equation 4.
    """
    _, positions = tf.math.top_k(gates, k)
    is_kept = tf.reduce_any(tf.one_hot(positions, gates.shape[-1], on_value=True, off_value=False), axis=-2)
    return tf.where(is_kept, gates, tf.constant(float("-inf"), gates.dtype))
