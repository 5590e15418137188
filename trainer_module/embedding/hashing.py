"""Integer hashes of keys: the owner of a row, and its start. Pure functions, equal on every platform."""

import tensorflow as tf

from sangam.schemas.host.splitmix64 import GAMMA, MULTIPLIERS, SHIFTS
from sangam.trainer_module.transforms.keys import ID_BITS


def _u64(value: int) -> tf.Tensor:
    return tf.constant(value & (2**64 - 1), tf.uint64)


def mix64(x: tf.Tensor) -> tf.Tensor:
    """Returns `schemas.host.splitmix64.mix64` of x, uint64 of any shape; tensors have other operators than arrays."""
    first, second, last = map(_u64, SHIFTS)
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, first)) * _u64(MULTIPLIERS[0])
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, second)) * _u64(MULTIPLIERS[1])
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, last))


def owner_of(keys: tf.Tensor, num_ranks: int) -> tf.Tensor:
    """Returns the rank that owns each key: [n] int64 to [n] int32, in 0 .. num_ranks - 1.

    The ranks own equal ranges of a hash of 32 bits, one after another, so that a checkpoint in the order of the hash
    has a rank's rows together for any number of ranks (`checkpoint.blocks`). The hash is of the id alone: a row
    keeps its owner when the tag of its table moves.

    >>> keys = tf.range(1000, dtype=tf.int64)
    >>> sorted(set(owner_of(keys, 3).numpy().tolist()))
    [0, 1, 2]
    """
    ids = tf.bitwise.bitwise_and(keys, tf.constant((1 << ID_BITS) - 1, tf.int64))
    hashes = tf.bitwise.right_shift(mix64(tf.bitcast(ids, tf.uint64)), _u64(32))
    return tf.cast(
        tf.bitwise.right_shift(tf.bitcast(hashes, tf.int64) * num_ranks, tf.constant(32, tf.int64)), tf.int32
    )


def initial_rows(keys: tf.Tensor, dim: int, scale: float, seed: int) -> tf.Tensor:
    """Returns starting vectors, uniform in [-scale, scale): a function of seed and key alone.

    So the start of a row depends on no order, batch or number of ranks.

    Args:
        keys: [n] int64.
        dim: floats per row.
        scale: half the width of the distribution.
        seed: seed of the run.

    Returns:
        [n, dim] float32.

    >>> alone = initial_rows(tf.constant([7], tf.int64), 4, 0.05, seed=0)
    >>> among_others = initial_rows(tf.constant([1, 7, 9], tf.int64), 4, 0.05, seed=0)
    >>> bool(tf.reduce_all(alone[0] == among_others[1]))
    True
    """
    streams = mix64(tf.bitcast(keys, tf.uint64) + _u64((seed + 1) * GAMMA))
    counters = tf.constant([((column + 1) * GAMMA) & (2**64 - 1) for column in range(dim)], tf.uint64)
    return (2.0 * _unit(mix64(streams[:, None] + counters[None, :])) - 1.0) * scale


def uniform(keys: tf.Tensor, stream: tf.Tensor) -> tf.Tensor:
    """Returns one draw from [0, 1) for each key: a function of the key and the stream, [n] int64 and uint64 scalar."""
    return _unit(mix64(tf.bitcast(keys, tf.uint64) + mix64(stream * _u64(GAMMA))))


def _unit(bits: tf.Tensor) -> tf.Tensor:
    """Returns the high 24 bits of uint64 as float32 in [0, 1)."""
    high = tf.bitwise.right_shift(bits, _u64(40))
    return tf.cast(tf.bitcast(high, tf.int64), tf.float32) * 2.0**-24
