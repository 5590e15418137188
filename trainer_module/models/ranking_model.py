"""What all architectures have in common: what they are made from, and what they can do."""

from dataclasses import dataclass
from typing import Protocol

import tensorflow as tf

from trainer_module.dense.noise import Noise
from trainer_module.dense.weights import Blocks, Weight, Weights


@dataclass(frozen=True)
class ModelInputs:
    """What a model's input x [batch, inputs] consists of: floats, then embeddings, side by side.

    Attributes:
        floats: features and their widths, in turn.
        embeddings: features and the widths of their vectors, in turn.
    """

    floats: Blocks = ()
    embeddings: Blocks = ()

    @property
    def blocks(self) -> Blocks:
        """All features and their widths, in turn."""
        return (*self.floats, *self.embeddings)


class RankingModel(Protocol):
    """A pure function from features to one logit per task.

    Attributes:
        weights: what it needs.
        shared: names of the matrices of the last layer that all tasks share, for a balance of their gradients there;
            empty where tasks share embeddings alone.
    """

    weights: tuple[Weight, ...]
    shared: tuple[str, ...]

    def __call__(self, weights: Weights, x_BI: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """Returns logits [batch, tasks].

        Args:
            weights: by name.
            x_BI: as `ModelInputs` says.
            noise: of dropout in training; None for prediction.
        """

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """Returns what else each example costs in training: [batch]; None where nothing does."""


class NoAuxiliary:
    """The part of a model whose tasks' losses are all there is."""

    def auxiliary_B(self, logits_BT: tf.Tensor) -> tf.Tensor | None:
        """See `RankingModel`."""
        del logits_BT
        return None
