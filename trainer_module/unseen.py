"""Training for ids that training has not seen: a share of their occurrences reads as ids without a row.

A draw is a function of the seed, the epoch, the feature and the example's own numbers. So it depends on no rank, batch
or step: a resumed run draws what it would have drawn, and ranks draw what one rank would have drawn.
"""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from sangam.schemas.host.splitmix64 import GAMMA
from sangam.trainer_module.embedding.hashing import mix64, uniform
from sangam.trainer_module.encoders.pooling import lists_of_values
from sangam.trainer_module.input.batch import Batch, Layout, ids_of, size_of
from sangam.trainer_module.transforms.keys import NO_ID

_OF_AN_EXAMPLE = ("ids", "floats", "labels", "event_time")

# Shape suffixes: B examples, F features of one id, L features of several ids, n values of these, W columns.


class UnseenIds:
    """Occurrences of ids that read as unseen.

    Attributes:
        rates: shares by feature; features without one are left out.
    """

    def __init__(self, layout: Layout, rates: Mapping[str, float], seed: int):
        """Takes the order of a batch's features, their rates, and the spec's `training.seed`."""
        self.rates = {name: rate for name, rate in rates.items() if rate > 0}
        self._layout, self._seed = layout, seed

    def read(self, batch: Mapping[str, tf.Tensor]) -> Batch:
        """Returns the tensors that `applied` reads: `ids_of` alone without rates. Takes a batch's spec too."""
        others = _OF_AN_EXAMPLE if self.rates else ()
        return ids_of(batch) | {name: batch[name] for name in others if name in batch}

    def applied(self, batch: Batch, epoch: tf.Tensor) -> Batch:
        """Returns a batch in which the occurrences that are drawn have no id.

        They have no part in the step: an id's row gets no gradient from them, is not made for them, and they are not
        counted for its admission or its eviction.

        Args:
            batch: has the tensors of `read`.
            epoch: number of the epoch; int64 scalar.
        """
        ids, lists = self._layout.all_ids, self._layout.all_lists
        if not self.rates:
            return batch
        example_B = _hash_of_examples(batch)
        stream = mix64(tf.cast(epoch, tf.uint64) + tf.constant((self._seed + 1) * GAMMA & (2**64 - 1), tf.uint64))
        changed = {}
        if self._has_rate(ids):
            draws_BF = uniform(example_B[:, None] + _salts(ids), stream)
            changed["ids"] = tf.where(draws_BF < self._rates(ids), tf.constant(NO_ID, tf.int64), batch["ids"])
        if self._has_rate(lists):
            list_n = lists_of_values(tf.reshape(batch["lengths"], [-1]), tf.size(batch["lists"]))
            size = tf.cast(size_of(batch), list_n.dtype)
            feature_n = list_n // tf.maximum(size, 1)
            example_n = tf.gather(example_B, list_n % tf.maximum(size, 1)) + tf.gather(_salts(lists), feature_n)
            # By its key: the values of a list have no other numbers of their own that do not depend on the batch.
            draws_n = uniform(example_n + batch["lists"] * _odd(len(_OF_AN_EXAMPLE), 1)[0], stream)
            is_drawn_n = draws_n < tf.gather(self._rates(lists), feature_n)
            changed["lists"] = tf.where(is_drawn_n, tf.constant(NO_ID, tf.int64), batch["lists"])
        return batch | changed

    def _has_rate(self, features: Sequence[str]) -> bool:
        return any(name in self.rates for name in features)

    def _rates(self, features: Sequence[str]) -> tf.Tensor:
        return tf.constant([self.rates.get(name, 0.0) for name in features], tf.float32)


def _hash_of_examples(batch: Batch) -> tf.Tensor:
    """Returns a number of each example that hardly another one has: [B] int64."""
    total_B = tf.zeros([size_of(batch)], tf.int64)
    for place, name in enumerate(name for name in _OF_AN_EXAMPLE if name in batch):
        values = batch[name] if batch[name].shape.rank == 2 else batch[name][:, None]
        bits_BW = tf.cast(tf.bitcast(values, tf.int32), tf.int64) if values.dtype == tf.float32 else values
        total_B += tf.reduce_sum(bits_BW * _odd(place, values.shape[1]), 1)
    return tf.bitcast(mix64(tf.bitcast(total_B, tf.uint64)), tf.int64)


def _odd(place: int, count: int) -> tf.Tensor:
    """Returns odd factors, other ones for each place: [count] int64."""
    factors = np.random.default_rng(place).integers(-(2**63), 2**63 - 1, size=count, dtype=np.int64)
    return tf.constant(factors | 1)


def _salts(features: Sequence[str]) -> tf.Tensor:
    """Returns a number of each feature, of its name alone: [features] int64."""
    return tf.constant(np.array([zlib.crc32(name.encode()) << 31 for name in features], np.int64))
