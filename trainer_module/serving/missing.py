"""Missing values of requests, left out as ingestion leaves them out of the logs, so that both read a row alike."""

from collections.abc import Mapping

import tensorflow as tf

from sangam.schemas.derived.rank_inputs import MISSING
from sangam.schemas.parts.columns import Column
from sangam.trainer_module.transforms.stacked import stacked

# Shape suffixes: n values of one or several columns.


def without_missing(columns: Mapping[str, Column], given: Mapping[str, tf.SparseTensor]) -> dict[str, tf.SparseTensor]:
    """Returns the columns without empty texts, the least int64, NaN and infinity.

    A value that is missing in one of several parallel lists is left out of all of them. Vectors are unchanged:
    Transform treats one with a missing number as missing.

    Raises:
        InvalidArgumentError: by the graph, for parallel lists of different lengths.
    """
    groups = parallel(columns, [name for name, column in columns.items() if column.length is None])
    kept = dict(given)
    for kind in ("string", "int", "float"):
        if alone := [name for name, *others in groups if not others and columns[name].type == kind]:
            values = stacked([given[name] for name in alone])
            left = values.only(is_given(values.values_n)).moved_up()
            kept |= zip(alone, left.columns([given[name].dense_shape for name in alone]), strict=True)
    for names in (group for group in groups if len(group) > 1):
        with tf.control_dependencies(_alike(names, given)):
            is_given_n = [is_given(tf.identity(given[name].values)) for name in names]
        all_given_n = tf.reduce_all(tf.stack(is_given_n), axis=0)
        kept |= {name: _closed(given[name], all_given_n) for name in names}
    return kept


def is_given(values_n: tf.Tensor) -> tf.Tensor:
    """Returns which values are not missing."""
    if values_n.dtype == tf.float32:
        return tf.math.is_finite(values_n)
    return tf.not_equal(values_n, MISSING["string" if values_n.dtype == tf.string else "int"])


def parallel(columns: Mapping[str, Column], names: list[str]) -> list[list[str]]:
    """Returns columns in groups of equal lengths, such as ids and their weights; most are alone."""
    groups = [[name] for name in names]
    for name in (each for each in names if columns[each].beside):
        for other in columns[name].beside:
            of_name, of_other = (next(group for group in groups if each in group) for each in (name, other))
            if of_name is not of_other:
                groups.remove(of_other)
                of_name += of_other
    return groups


def _alike(names: list[str], given: Mapping[str, tf.SparseTensor]) -> list[tf.Operation]:
    first, checks = given[names[0]].indices, []
    for name in names[1:]:
        other = given[name].indices
        # Compared element by element only where the sizes agree.
        same = tf.cond(
            tf.reduce_all(tf.equal(tf.shape(first), tf.shape(other))),
            lambda other=other: tf.reduce_all(tf.equal(first, other)),
            lambda: False,
        )
        what = f"{names[0]} and {name}: each id needs its value; got:"
        checks.append(tf.debugging.Assert(same, [what, tf.shape(first), tf.shape(other)]))
    return checks


def _closed(column: tf.SparseTensor, is_given_n: tf.Tensor) -> tf.SparseTensor:
    """Returns lists without some values; those behind them move up."""
    indices, values = tf.boolean_mask(column.indices, is_given_n), tf.boolean_mask(column.values, is_given_n)
    row_n = indices[:, 0]
    position_n = tf.range(tf.size(row_n, tf.int64)) - tf.searchsorted(row_n, row_n, out_type=tf.int64)
    return tf.SparseTensor(tf.stack([row_n, position_n], 1), values, column.dense_shape)
