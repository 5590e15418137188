"""Numbers by their quantile in the training split."""

from collections.abc import Mapping

import tensorflow as tf

from sangam.schemas.contracts.statistics import Boundaries
from sangam.schemas.spec.features import BucketsFeature
from sangam.trainer_module.transforms.bins import num_at_most, padded
from sangam.trainer_module.transforms.keys import NO_ID, id_keys, missing_key
from sangam.trainer_module.transforms.stacked import Column, Rows, one_row

# Shape suffixes: F features side by side; R rows of all their columns; N boundaries.


class Buckets:
    """Features that become a bucket each: a row of its own, or its middle as a share of all buckets.

    A required number that a request lacks has no row; as a share it is 1/2, the median.
    """

    def __init__(
        self,
        features: Mapping[str, BucketsFeature],
        rows: Rows,
        tags: Mapping[str, int],
        boundaries: Mapping[str, Boundaries],
    ):
        """Takes the features' numbers in their order, the tag of each table and the boundaries of each feature."""
        self._features, members = features, features.values()
        self._num_F = tf.constant([feature.num_buckets for feature in members])
        self._tag_F = tf.constant([tags[feature.table] if feature.table else 0 for feature in members], tf.int64)
        missing = [missing_key(tags[each.table]) if each.table and each.missing_row else NO_ID for each in members]
        self._missing_F = tf.constant(missing, tf.int64)
        self._rows = rows
        self._lowest_FN = padded([boundaries[name].lowest for name in features])

    def outputs(self) -> dict[str, Column]:
        """Returns each feature's keys, int64, or shares, float32: [rows]."""
        return self._of(self._rows)

    def of_values(self, values: Mapping[str, float]) -> dict[str, tf.Tensor]:
        """Returns the features' outputs for these values of the logs, one for every feature: scalars."""
        one_each = one_row([values[name] for name in self._features])
        return {name: made.tensor()[0] for name, made in self._of(one_each).items()}

    def _of(self, rows: Rows) -> dict[str, Column]:
        feature_R, x_R = rows.feature_R(), rows.values_R
        bucket_R = tf.minimum(num_at_most(rows, self._lowest_FN), tf.gather(self._num_F, feature_R) - 1)
        is_given_R = tf.math.is_finite(x_R)
        keys_R = id_keys(tf.gather(self._tag_F, feature_R), bucket_R)
        keys_R = tf.where(is_given_R, keys_R, tf.gather(self._missing_F, feature_R))
        shares_R = (tf.cast(bucket_R, tf.float32) + 0.5) / tf.cast(tf.gather(self._num_F, feature_R), tf.float32)
        shares_R = tf.where(is_given_R, shares_R, 0.5)
        both = zip(rows.with_values(keys_R).columns(), rows.with_values(shares_R).columns(), strict=True)
        outputs = {}
        for (name, feature), (keys, shares) in zip(self._features.items(), both, strict=True):
            outputs[name] = keys if feature.table else shares
        return outputs
