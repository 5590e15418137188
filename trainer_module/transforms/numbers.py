"""Numbers: clipped, logged, normalized by statistics over the training split."""

import math
from collections.abc import Mapping, Sequence

import tensorflow as tf

from schemas.contracts.statistics import Scale
from schemas.spec.features import AgeFeature, BucketsFeature, NumericFeature
from trainer_module.transforms.stacked import Rows, stacked

_AT_ONCE = 64
"""A multiple of how many numbers any CPU computes at a time."""

# Shape suffixes: F features side by side; R rows of all their columns; B batch in training.


def logged(features: Sequence[NumericFeature | BucketsFeature], columns: Sequence[tf.SparseTensor]) -> Rows:
    """Returns the numbers as they are logged, NaN where there is neither a finite number nor a default."""
    rows = stacked([tf.cast(column, tf.float32) for column in columns]).one_each(math.nan)
    missing_F = [math.nan if feature.missing is None else feature.missing for feature in features]
    missing_R = tf.gather(tf.constant(missing_F, tf.float32), rows.feature_R())
    return rows.with_values(tf.where(tf.math.is_finite(rows.values_R), rows.values_R, missing_R))


def _log1p(x_R: tf.Tensor) -> tf.Tensor:
    """Returns log(1 + x), the same for a number whatever other numbers there are.

    TensorFlow computes several at a time, and those left over one by one, with another last bit: none may be left.
    """
    size = tf.size(x_R)
    return tf.math.log1p(tf.pad(x_R, [[0, tf.math.floormod(-size, _AT_ONCE)]]))[:size]


class Numbers:
    """Features that become one normalized float each.

    A number that is constant in training becomes 0 in every request, as nothing was learned about other values. A
    required number that a request lacks becomes 0 too, the mean after z-scoring; training rows always have it.
    """

    def __init__(self, features: Mapping[str, NumericFeature | AgeFeature], rows: Rows):
        """Takes the features' numbers in their order."""
        self._features = features
        clips = [feature.clip or (-math.inf, math.inf) for feature in features.values()]
        self._low_F = tf.constant([low for low, _ in clips], tf.float32)
        self._high_F = tf.constant([high for _, high in clips], tf.float32)
        self._log_F = tf.constant([feature.log for feature in features.values()])
        self._feature_R = rows.feature_R()
        self._prepared = rows.with_values(self._prepare(rows.values_R, self._feature_R))

    def outputs(self, scales: Mapping[str, Scale]) -> dict[str, tf.Tensor]:
        """Returns each feature's floats, given the scales of those that are normalized: [rows]."""
        scaled_R = self._scale(self._prepared.values_R, self._feature_R, scales)
        return dict(zip(self._features, self._prepared.with_values(scaled_R).parts(), strict=True))

    def of_values(self, values: Mapping[str, float], scales: Mapping[str, Scale]) -> dict[str, tf.Tensor]:
        """Returns the features' outputs for these values of the logs, one for every feature: scalars."""
        every_F = tf.range(len(self._features))
        x_F = self._prepare(tf.constant([values[name] for name in self._features], tf.float32), every_F)
        return dict(zip(self._features, tf.unstack(self._scale(x_F, every_F, scales), len(values)), strict=True))

    def prepared(self) -> dict[str, tf.Tensor]:
        """Returns each feature's numbers as they are before they are normalized: [rows]."""
        return dict(zip(self._features, self._prepared.parts(), strict=True))

    def _prepare(self, x_R: tf.Tensor, feature_R: tf.Tensor) -> tf.Tensor:
        x_R = tf.minimum(tf.maximum(x_R, tf.gather(self._low_F, feature_R)), tf.gather(self._high_F, feature_R))
        return tf.where(tf.gather(self._log_F, feature_R), _log1p(x_R), x_R)

    def _scale(self, x_R: tf.Tensor, feature_R: tf.Tensor, scales: Mapping[str, Scale]) -> tf.Tensor:
        unscaled = Scale(offset=0.0, width=1.0)
        own = [unscaled if feature.normalize == "none" else scales[name] for name, feature in self._features.items()]
        offset_F = tf.constant([scale.offset for scale in own], tf.float32)
        width_F = tf.constant([scale.width for scale in own], tf.float32)
        factor_F = tf.math.divide_no_nan(tf.ones_like(width_F), width_F)
        x_R = (x_R - tf.gather(offset_F, feature_R)) * tf.gather(factor_F, feature_R)
        return tf.where(tf.math.is_nan(x_R), tf.zeros_like(x_R), x_R)
