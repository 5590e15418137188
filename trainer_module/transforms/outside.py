"""Features of others: their columns as they take them, their results as Transform gives them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.schemas.parts.calls import refused
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.roles import Feature
from sangam.trainer_module.outside import computed, traced
from sangam.trainer_module.transforms.columns import one_value
from sangam.trainer_module.transforms.keys import NO_ID, id_keys

_MISSING: dict[str, Any] = {"float": np.float32("nan"), "int": np.int64(0), "string": ""}

# Shape suffixes: R rows, W floats of the feature.


def feature_of_others(
    feature: Feature, tag: int, read: Sequence[Column], columns: Sequence[tf.SparseTensor]
) -> tf.Tensor | tf.SparseTensor:
    """Returns a feature's floats, [R] or [R, W] float32, or the keys of its ids: int64 [R], or sparse of lists.

    Args:
        feature: a feature of others.
        tag: tag of its table; 0 without one.
        read: what it reads.
        columns: values of these columns.
    """
    given = _of_as_many_rows([_as_given(column, each) for each, column in zip(read, columns, strict=True)])
    if feature.table_name() is None:
        width = feature.width()
        floats_RW = computed(feature, given, shape=[None, width], dtype=tf.float32)
        return floats_RW[:, 0] if width == 1 else floats_RW
    ids = traced(feature, given)
    if feature.is_list():
        if not isinstance(ids, tf.RaggedTensor) or ids.ragged_rank != 1:
            raise refused(feature, f"returned {type(ids).__name__}", "a ragged tensor [rows, None] of ids")
        return ids.with_flat_values(_keys(feature, tag, ids.flat_values)).to_sparse()
    return _keys(feature, tag, ids)


def _keys(feature: Feature, tag: int, ids: Any) -> tf.Tensor:
    """Returns the keys of ids; an empty text is no id."""
    if not isinstance(ids, tf.Tensor) or ids.dtype not in (tf.string, tf.int64) or ids.shape.rank != 1:
        got = f"{ids.dtype.name} of rank {ids.shape.rank}" if isinstance(ids, tf.Tensor) else type(ids).__name__
        raise refused(feature, f"returned {got}", "int64 or string, one id a row (`is_list` False) or ragged")
    keys_R = id_keys(tag, ids)
    return tf.where(tf.equal(ids, ""), tf.constant(NO_ID, tf.int64), keys_R) if ids.dtype == tf.string else keys_R


def _as_given(column: tf.SparseTensor, read: Column) -> tf.Tensor | tf.RaggedTensor:
    if not read.is_list:
        return one_value(column, _MISSING[read.type])
    rows = column.dense_shape[0]
    return tf.RaggedTensor.from_value_rowids(column.values, column.indices[:, 0], rows, validate=False)


def _of_as_many_rows(columns: Sequence[Any]) -> list[Any]:
    """Returns columns of one row, which all candidates of a request share, with as many rows as the others."""
    if len(columns) == 1:
        return list(columns)
    rows = [column.nrows() if isinstance(column, tf.RaggedTensor) else tf.size(column, tf.int64) for column in columns]
    all_rows = tf.where(tf.reduce_any(tf.equal(rows, 0)), tf.constant(0, tf.int64), tf.reduce_max(rows))
    row_R = tf.range(all_rows)
    return [
        tf.gather(column, tf.where(tf.equal(own, 1), tf.zeros_like(row_R), row_R))
        for column, own in zip(columns, rows, strict=True)
    ]
