"""Packs tensors of several groups into one message: for each rank, group after group."""

from collections.abc import Sequence

import tensorflow as tf

# Shape suffixes: R ranks, G groups.


def pack(flats: Sequence[tf.Tensor], sizes_RG: tf.Tensor) -> tf.Tensor:
    """Returns one vector with, for each rank in turn, its part of every group.

    Args:
        flats: one vector per group, with the parts of the ranks in turn.
        sizes_RG: length of each part; the number of ranks must be known when the graph is built.
    """
    ranks = sizes_RG.shape[0]
    parts = [tf.split(flat, sizes_RG[:, group], num=ranks) for group, flat in enumerate(flats)]
    return tf.concat([of_group[rank] for rank in range(ranks) for of_group in parts], 0)


def unpack(packed: tf.Tensor, sizes_RG: tf.Tensor) -> list[tf.Tensor]:
    """Returns the vectors of the groups, the inverse of `pack`."""
    ranks, groups = sizes_RG.shape
    parts = tf.split(packed, tf.reshape(sizes_RG, [-1]), num=ranks * groups)
    return [tf.concat(parts[group::groups], 0) for group in range(groups)]
