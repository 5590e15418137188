"""The inputs of `rank`: a tensor for each column of the logs, of one row or one for each candidate."""

from collections.abc import Mapping

import tensorflow as tf

from sangam.schemas.derived.rank_inputs import LENGTH, MISSING, clashes, input_names
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.trainer_module.serving.missing import without_missing

TYPES: dict[ColumnType, tf.DType] = {"string": tf.string, "int": tf.int64, "float": tf.float32}
"""TensorFlow's type of a column's values."""

# Shape suffixes: R rows of one column, 1 or as many as candidates; L width of a column of lists.


def input_specs(columns: Mapping[str, Column]) -> dict[str, tf.TensorSpec]:
    """Returns the inputs by name: [rows] for a scalar; for lists [rows, width], padded, and their lengths [rows].

    Raises:
        ValueError: when two columns need the same input.
    """
    for first, second, name in clashes(columns.values()):
        raise ValueError(f"export: columns '{first}' and '{second}' cannot both be input '{name}'; rename one of them")
    specs = {}
    names = input_names(columns.values())
    for column in columns.values():
        name = names[column.name]
        specs[name] = tf.TensorSpec([None, None] if column.is_list else [None], TYPES[column.type], name=name)
        if column.is_list:
            specs[name + LENGTH] = tf.TensorSpec([None], tf.int64, name=name + LENGTH)
    return specs


def with_candidates(
    columns: Mapping[str, Column], inputs: Mapping[str, tf.Tensor]
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns the number of candidates, and the inputs after the check that their rows agree.

    Inputs without any row mean no candidates.

    Raises:
        InvalidArgumentError: by the graph, for an input that has neither one row nor one for each candidate.
    """
    names = sorted(inputs)
    rows = tf.stack([tf.shape(inputs[name])[0] for name in names])
    candidates = tf.where(tf.reduce_any(tf.equal(rows, 0)), 0, tf.reduce_max(rows))
    agree = tf.reduce_all(tf.equal(rows, 1) | tf.equal(rows, candidates))
    what = f"rank: each input needs one row, or one for each candidate; rows of {', '.join(names)}:"
    checks = [tf.debugging.Assert(agree, [what, rows], summarize=len(names))]
    for name in names:
        if name + LENGTH in inputs and inputs[name].shape.rank == 2:
            checks += _list_checks(name, inputs[name], inputs[name + LENGTH])
    input_of = input_names(columns.values())
    for name, column in columns.items():
        for other in column.beside:
            checks.append(_beside_check(input_of[name] + LENGTH, input_of[other] + LENGTH, inputs))
    with tf.control_dependencies(checks):
        return tf.identity(candidates), {name: tf.identity(inputs[name]) for name in names}


def _list_checks(name: str, padded_RL: tf.Tensor, lengths_R: tf.Tensor) -> list[tf.Operation]:
    rows, width = tf.unstack(tf.shape(padded_RL, tf.int64))
    lengths = tf.size(lengths_R, tf.int64)
    fits = tf.reduce_all((lengths_R >= 0) & (lengths_R <= width))
    return [
        tf.debugging.Assert(
            tf.equal(rows, lengths), [f"rank: {name} and {name + LENGTH} need as many rows; got", rows, lengths]
        ),
        tf.debugging.Assert(fits, [f"rank: {name + LENGTH} must be from 0 to the width of {name}, which is", width]),
    ]


def _beside_check(name: str, other: str, inputs: Mapping[str, tf.Tensor]) -> tf.Operation:
    one, two = inputs[name], inputs[other]
    # Compared element by element only where the shapes agree.
    agree = tf.cond(tf.equal(tf.size(one), tf.size(two)), lambda: tf.reduce_all(tf.equal(one, two)), lambda: False)
    return tf.debugging.Assert(agree, [f"rank: {name} and {other} must be equal; got", one, two])


def sparse_columns(columns: Mapping[str, Column], inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.SparseTensor]:
    """Returns the columns in the form of parsed tf.Examples without missing values, each with its own number of rows.

    A scalar equal to `MISSING` is missing.
    """
    sparse = {}
    names = input_names(columns.values())
    for name, column in columns.items():
        values = inputs[names[name]]
        if column.is_list:
            shape = tf.shape(values, tf.int64)
            indices = tf.where(tf.sequence_mask(inputs[names[name] + LENGTH], shape[1]))
            sparse[name] = tf.SparseTensor(indices, tf.gather_nd(values, indices), shape)
        else:
            row_R = tf.range(tf.size(values, tf.int64))
            shape = tf.stack([tf.size(row_R, tf.int64), 1])
            sparse[name] = tf.SparseTensor(tf.stack([row_R, tf.zeros_like(row_R)], 1), values, shape)
    return without_missing(columns, sparse)


def inputs_of(columns: Mapping[str, Column], parsed: Mapping[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Returns the inputs that are equivalent to parsed tf.Examples."""
    inputs = {}
    names = input_names(columns.values())
    for name, column in columns.items():
        rows = tf.RaggedTensor.from_sparse(parsed[name])
        if column.is_list:
            inputs[names[name]], inputs[names[name] + LENGTH] = rows.to_tensor(), rows.row_lengths()
        else:
            missing = tf.constant(MISSING[column.type], rows.dtype)
            inputs[names[name]] = rows.to_tensor(missing, shape=[None, 1])[:, 0]
    return inputs
