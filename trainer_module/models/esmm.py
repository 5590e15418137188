"""Entire space multi-task model: a chain of tasks, of which each step implies the ones before.

Reference: Ma et al.: Entire space multi-task model: an effective approach for estimating post-click conversion rate,
SIGIR 2018.
"""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.spec.models import Esmm
from sangam.trainer_module.dense.layers import Heads, ParallelMlps
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.models.ranking_model import NoAuxiliary

# Shape suffixes: B batch, I inputs, T tasks.


class EsmmModel(NoAuxiliary):
    """P(step k) = p_1 p_2 ... p_k, each p the sigmoid of a network of its own: equation 1, for any number of steps.

    All steps are trained on all examples (equation 3): the conditional probability p_k, given step k - 1, has no loss
    of its own.
    """

    def __init__(self, spec: Esmm, tasks: Sequence[str]):
        self._chain = spec.chain
        self._chain_index = [spec.chain.index(task) for task in tasks]
        self._towers = ParallelMlps("towers", len(spec.tower_units), spec.chain, dropout=spec.dropout)
        self._heads = Heads(spec.chain)
        self.shared: tuple[str, ...] = ()

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`: the logits of the products, so that losses and predictions need no special case."""
        conditional_BT = tf.cast(self._heads(weights, self._towers(weights, x_BI, noise)), tf.float32)
        first_B, *others = tf.unstack(conditional_BT, num=len(self._chain), axis=1)
        logits = [first_B]
        for logit_B in others:
            logits.append(logit_of_product(logits[-1], logit_B))
        return tf.stack([logits[index] for index in self._chain_index], axis=1)


def logit_of_product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns logit(sigmoid(a) sigmoid(b)) = -log(e^-a + e^-b + e^(-a-b)), finite for all finite a and b."""
    return -tf.reduce_logsumexp(tf.stack([-a, -b, -a - b]), axis=0)
