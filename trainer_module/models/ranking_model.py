"""The interface of all architectures."""

from typing import Protocol

import tensorflow as tf

from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.dense.weights import Weights


class RankingModel(Protocol):
    """A pure function from features to one logit per task.

    Attributes:
        shared: names of the matrices of the last layer that all tasks share, for a balance of their gradients there;
            empty where tasks share embeddings alone.
    """

    shared: tuple[str, ...]

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """Returns logits [batch, tasks].

        Args:
            weights: weights by name.
            x_BI: [batch, inputs].
            noise: noise of dropout in training; None for prediction.
        """

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """Returns the model's own loss of each example in training: [batch]; None without one."""


class NoAuxiliary:
    """A model without a loss of its own."""

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """See `RankingModel`."""
        del logits_BT
        return None
