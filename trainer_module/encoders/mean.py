"""The mean of a list whose vectors are more than rows; `pooling` combines the rows of many features at once."""

import tensorflow as tf

from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.encoders.pooling import COMBINERS, combine


class MeanLists:
    """sum_i x_i / n."""

    def __call__(self, weights: Weights, lists: Lists, target: tf.Tensor | None) -> tf.Tensor:  # noqa: ARG002
        """See `Encoder`."""
        combiners_R = tf.fill(tf.shape(lists.lengths_R), COMBINERS.index("mean"))
        return combine(lists.values_nD, lists.lengths_R, combiners_R)
