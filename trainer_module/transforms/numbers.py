"""Numbers: clipped, logged, normalised, cut into buckets; and vectors.

Statistics over the training split are computed of all features that want the same one together, side by side, so that
TensorFlow Transform runs a handful of analyzers however many features there are. They are applied feature by feature,
because the columns of a request differ in their number of rows.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf
import tensorflow_transform as tft
from typing_extensions import assert_never

from schemas.features import AgeFeature, BucketsFeature, NumericFeature, VectorFeature
from trainer_module.transforms.columns import num_values, one_value

_LARGEST_RANK_ERROR = 0.01
"""Of quantiles, as a share of the examples, and a tenth of a bucket: tft.bucketize's own choice is a hundredth."""

# Shape suffixes: R rows of a column, B of a batch in training, F features side by side, D dimension.


class Scale(NamedTuple):
    """(x - offset) * factor."""

    offset: tf.Tensor
    factor: tf.Tensor

    def __call__(self, x_R: tf.Tensor) -> tf.Tensor:
        """Returns [R]."""
        return (x_R - self.offset) * self.factor


def logged(feature: NumericFeature | BucketsFeature, column: tf.SparseTensor) -> tf.Tensor:
    """Returns the numbers as they are logged, NaN where there is neither a number nor a default: float32 [R]."""
    missing = math.nan if feature.missing is None else feature.missing
    return one_value(tf.cast(column, tf.float32), missing)


def prepared(feature: NumericFeature | AgeFeature, x_R: tf.Tensor) -> tf.Tensor:
    """Returns numbers clipped and then logged, each where it is declared."""
    if feature.clip:
        x_R = tf.clip_by_value(x_R, feature.clip[0], feature.clip[1])
    return tf.math.log1p(x_R) if feature.log else x_R


def scales(features: Mapping[str, NumericFeature | AgeFeature], numbers: Mapping[str, tf.Tensor]) -> dict[str, Scale]:
    """Returns how each feature is normalised, by statistics over the training split; not those that are not.

    A number that never changes in training becomes 0: whatever else it is in a request, nothing was learned about it.

    Args:
        features: by name.
        numbers: what `prepared` returns for each.
    """
    alike = defaultdict(list)
    for name, feature in features.items():
        alike[feature.normalise].append(name)
    found: dict[str, Scale] = {}
    for kind, names in alike.items():
        if kind == "none":
            continue
        x_BF = tf.stack([numbers[name] for name in names], 1)
        match kind:
            case "zscore":
                offset_F = tft.mean(x_BF, reduce_instance_dims=False)
                width_F = tf.sqrt(tft.var(x_BF, reduce_instance_dims=False))
            case "minmax":
                offset_F = tft.min(x_BF, reduce_instance_dims=False)
                width_F = tft.max(x_BF, reduce_instance_dims=False) - offset_F
            case _:
                assert_never(kind)
        factor_F = tf.math.divide_no_nan(tf.ones_like(width_F), width_F)
        pairs = zip(tf.unstack(offset_F, len(names)), tf.unstack(factor_F, len(names)), strict=True)
        found |= {name: Scale(*pair) for name, pair in zip(names, pairs, strict=True)}
    return found


def normalised(scale: Scale | None, x_R: tf.Tensor) -> tf.Tensor:
    """Returns a feature's floats: [R].

    Validation lets no training row without a required value through; a request may lack it, and then reads as 0, the
    mean after z-scoring.
    """
    x_R = x_R if scale is None else scale(x_R)
    return tf.where(tf.math.is_nan(x_R), tf.zeros_like(x_R), x_R)


def boundaries(features: Mapping[str, BucketsFeature], numbers: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the lowest numbers of each feature's buckets but the first, quantiles of the training split.

    Missing numbers do not count. The features of one number of buckets are analysed together.

    Args:
        features: by name.
        numbers: what `logged` returns for each.

    Returns:
        {feature: [num_buckets - 1]}, ascending.
    """
    alike = defaultdict(list)
    for name, feature in features.items():
        alike[feature.num_buckets].append(name)
    found: dict[str, tf.Tensor] = {}
    for num_buckets, names in alike.items():
        x_BF = tf.stack([numbers[name] for name in names], 1)
        error = min(_LARGEST_RANK_ERROR, 0.1 / num_buckets)
        lowest = tft.quantiles(x_BF, num_buckets, error, reduce_instance_dims=False)
        found |= dict(zip(names, tf.unstack(lowest, len(names)), strict=True))
    return found


def buckets(lowest: tf.Tensor, x_R: tf.Tensor) -> tf.Tensor:
    """Returns the bucket of each number, from 0; anything where it is NaN: [R] int32."""
    return tf.searchsorted(lowest, x_R, side="right")


def bucket_shares(feature: BucketsFeature, lowest: tf.Tensor, x_R: tf.Tensor) -> tf.Tensor:
    """Returns the middle of each number's bucket, as a share of all: float32 [R] in (0, 1).

    A required number that a request lacks reads as 1/2, the median.
    """
    shares_R = (tf.cast(buckets(lowest, x_R), tf.float32) + 0.5) / feature.num_buckets
    return tf.where(tf.math.is_nan(x_R), tf.fill(tf.shape(x_R), 0.5), shares_R)


def vectors(name: str, feature: VectorFeature, column: tf.SparseTensor) -> tf.Tensor:
    """Returns vectors, zeros for one that a request lacks though it is required: float32 [R, D].

    One with a float that is not finite is missing, as in ingestion.

    Raises:
        InvalidArgumentError: by the graph, for a vector of another length than declared.
    """
    length_R = num_values(column)
    fits = tf.reduce_all(tf.equal(length_R, 0) | tf.equal(length_R, feature.dim))
    what = f"features.{name}: a vector has {feature.dim} floats; lengths got:"
    with tf.control_dependencies([tf.debugging.Assert(fits, [what, length_R])]):
        whole = tf.SparseTensor(column.indices, tf.identity(column.values), [column.dense_shape[0], feature.dim])
    vectors_RD = tf.ensure_shape(tf.sparse.to_dense(whole), [None, feature.dim])
    given_R = tf.greater(length_R, 0) & tf.reduce_all(tf.math.is_finite(vectors_RD), axis=1)
    vectors_RD = tf.where(given_R[:, None], vectors_RD, feature.missing or 0.0)
    match feature.normalise:
        case "none":
            return vectors_RD
        case "l2":
            return tf.math.divide_no_nan(vectors_RD, tf.norm(vectors_RD, axis=1, keepdims=True))
        case _:
            assert_never(feature.normalise)
