"""Embeddings of lists, as encoders take them."""

from dataclasses import dataclass

import tensorflow as tf

from sangam.trainer_module.encoders.pooling import lists_of_values

# Shape suffixes: R lists, C targets, n values of all of them in a row, L longest list, D dimension.


@dataclass(frozen=True)
class Lists:
    """The embeddings of one feature of several ids, list after list.

    Attributes:
        values_nD: embeddings.
        lengths_R: int64, how many each list has.
        ages_n: float32, seconds from each event to its row's time, at least 0; None without times.
        has_own_targets: whether each list is known to have a target of its own; otherwise one may be for all.
        list_C: int32, the list of each target, ascending; None: see `of_targets`.
    """

    values_nD: tf.Tensor
    lengths_R: tf.Tensor
    ages_n: tf.Tensor | None = None
    has_own_targets: bool = False
    list_C: tf.Tensor | None = None

    def of_targets(self, num_targets: tf.Tensor) -> tf.Tensor:
        """Returns the list of each target: [C] int32, ascending.

        Args:
            num_targets: as many as lists; or lists or targets may be one for all of the others.
        """
        if self.list_C is not None:
            return self.list_C
        num_lists = tf.size(self.lengths_R)
        return tf.minimum(tf.range(tf.where(num_lists == 1, num_targets, num_lists)), num_lists - 1)

    def positions(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the list of each value, and its position in it, from 0: [n] int32 and [n] int64."""
        list_n = lists_of_values(self.lengths_R, tf.shape(self.values_nD)[0])
        starts_R = tf.cumsum(self.lengths_R, exclusive=True)
        return list_n, tf.range(tf.size(list_n, tf.int64)) - tf.gather(starts_R, list_n)

    def padded(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns [lists, longest, dim], padded with zeros, and where there are values: [lists, longest] bool."""
        longest = tf.reduce_max(tf.concat([[tf.constant(0, tf.int64)], self.lengths_R], 0))
        position_L = tf.range(longest)
        is_there_RL = position_L < self.lengths_R[:, None]
        index_RL = tf.cumsum(self.lengths_R, exclusive=True)[:, None] + position_L
        values_RLD = tf.gather(self.values_nD, tf.where(is_there_RL, index_RL, 0))
        return tf.where(is_there_RL[:, :, None], values_RLD, 0.0), is_there_RL
