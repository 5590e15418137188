"""An interaction of features, and task heads over its outputs."""

import tensorflow as tf

from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Weights
from trainer_module.interactions import Interaction
from trainer_module.models.ranking_model import RankingModel


class ComposedModel:
    """y = task_heads(interaction(x))."""

    def __init__(self, interaction: Interaction, task_heads: RankingModel):
        self._interaction, self._task_heads = interaction, task_heads
        self.weights = (*interaction.weights, *task_heads.weights)
        self.shared = task_heads.shared or interaction.shared

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        return self._task_heads(weights, self._interaction(weights, x_BI, noise), noise)

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """See `RankingModel`."""
        return self._task_heads.auxiliary_B(logits_BT)
