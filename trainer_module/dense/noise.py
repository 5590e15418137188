"""Dropout without state: a resumed run draws the numbers that it would have drawn."""

import zlib

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.dense import fused

_INT32 = 0x7FFFFFFF


class Noise:
    """The random numbers of one rank in one step: a pure function of seed, step, rank and the layer's name."""

    def __init__(self, seed: tf.Tensor):
        """Makes the noise of a seed: [2] int32."""
        self._seed = seed

    @classmethod
    def of_step(cls, *, seed: int, step: tf.Tensor, rank: int) -> "Noise":
        """Returns a step's noise.

        Args:
            seed: the spec's `training.seed`.
            step: scalar, equal on all ranks.
            rank: each draws its own numbers.
        """
        of_run = tf.constant([seed, 0], tf.int32)
        of_step = tf.random.experimental.stateless_fold_in(of_run, tf.cast(step, tf.int32))
        return cls(tf.random.experimental.stateless_fold_in(of_step, rank))

    def dropout(self, x: tf.Tensor, rate: float | NDArray[np.float32], name: str) -> tf.Tensor:
        """Returns x with a share `rate` of its numbers zeroed and the others divided by 1 - rate.

        Args:
            x: floats of any shape.
            rate: share to drop, from 0, below 1; or one share for each column.
            name: name of the layer; each layer draws its own numbers.

        Reference: Srivastava et al.: Dropout, JMLR 2014, section 4; scaled in training instead of in prediction
        (section 10).
        """
        if not np.any(rate):
            return x
        width = x.shape[-1] if x.shape.rank else None
        if fused.applies_to(x) and width:
            kept = fused.dropped(tf.reshape(x, [-1, width]), self.drawn(rate, name, width))
            return tf.ensure_shape(tf.reshape(kept, tf.shape(x)), x.shape)
        # In float32 also where x is bfloat16, whose 8 bits would round the rate.
        is_kept = tf.random.stateless_uniform(tf.shape(x), self._seed_of(name), alg="philox") >= rate
        return tf.where(is_kept, x * tf.cast(1 / (1 - rate), x.dtype), tf.zeros([], x.dtype))

    def drawn(self, rate: float | NDArray[np.float32], name: str, columns: int) -> fused.Drawn:
        """Returns the same numbers, for our operation; see `dropout`."""
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=self._seed_of(name))
        return fused.Drawn(key, counter, np.broadcast_to(rate, [columns]))

    def _seed_of(self, name: str) -> tf.Tensor:
        return tf.random.experimental.stateless_fold_in(self._seed, zlib.crc32(name.encode()) & _INT32)
