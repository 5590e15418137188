"""An interaction of features, and a tasks' part over what it gives."""

import tensorflow as tf

from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Weights
from trainer_module.interactions import Interaction
from trainer_module.models.ranking_model import RankingModel


class ComposedModel:
    """y = tasks_part(interaction(x))."""

    def __init__(self, interaction: Interaction, tasks_part: RankingModel):
        self._interaction, self._tasks_part = interaction, tasks_part
        self.weights = (*interaction.weights, *tasks_part.weights)
        self.shared = tasks_part.shared or interaction.shared

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        return self._tasks_part(weights, self._interaction(weights, x_BI, noise), noise)

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """See `RankingModel`."""
        return self._tasks_part.auxiliary_B(logits_BT)
