"""Vectors that another model has computed."""

from typing import assert_never

import tensorflow as tf

from sangam.schemas.spec.features import VectorFeature
from sangam.trainer_module.transforms.columns import num_values

# Shape suffixes: R rows of a column, D dimension.


def vectors(name: str, feature: VectorFeature, column: tf.SparseTensor) -> tf.Tensor:
    """Returns vectors, zeros where a request lacks a required one: float32 [R, D].

    A vector with a float that is not finite counts as missing, as in ingestion.

    Raises:
        InvalidArgumentError: by the graph, for a vector of another length than the spec's.
    """
    length_R = num_values(column)
    fits = tf.reduce_all(tf.equal(length_R, 0) | tf.equal(length_R, feature.dim))
    what = f"features.{name}: a vector has {feature.dim} floats; lengths got:"
    with tf.control_dependencies([tf.debugging.Assert(fits, [what, length_R])]):
        whole = tf.SparseTensor(column.indices, tf.identity(column.values), [column.dense_shape[0], feature.dim])
    vectors_RD = tf.ensure_shape(tf.sparse.to_dense(whole), [None, feature.dim])
    given_R = tf.greater(length_R, 0) & tf.reduce_all(tf.math.is_finite(vectors_RD), axis=1)
    vectors_RD = tf.where(given_R[:, None], vectors_RD, feature.missing or 0.0)
    match feature.normalize:
        case "none":
            return vectors_RD
        case "l2":
            return tf.math.divide_no_nan(vectors_RD, tf.norm(vectors_RD, axis=1, keepdims=True))
        case _:
            assert_never(feature.normalize)
