"""The inputs of `rank`: a tensor for each column of the logs, of one row or one for each candidate."""

import itertools
from collections.abc import Mapping, Sequence

import tensorflow as tf

from sangam.schemas.derived.rank_inputs import LENGTH, MISSING, REQUEST_NUMBER, clashes, input_names
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.trainer_module.transforms.ranges import numbers_of
from sangam.trainer_module.transforms.stacked import Rows, stacked

TYPES: dict[ColumnType, tf.DType] = {"string": tf.string, "int": tf.int64, "float": tf.float32}
"""TensorFlow's type of a column's values."""

# Shape suffixes: F columns side by side; R rows of one or all of them, 1 or as many as candidates each; n values.


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


def num_candidates(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns the number of candidates of one request, int32 scalar; inputs without any row mean none."""
    _, rows = _num_rows(inputs)
    return tf.where(tf.reduce_any(tf.equal(rows, 0)), 0, tf.reduce_max(rows))


def checked(
    columns: Mapping[str, Column], inputs: Mapping[str, tf.Tensor], number_C: tf.Tensor
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns the number of each candidate's request, and the inputs, after the check that their rows agree.

    Raises:
        InvalidArgumentError: by the graph, for an input that has neither a row for each request nor one for each
            candidate.
    """
    names, rows = _num_rows(inputs)
    steps = number_C - tf.concat([[0], number_C], 0)[:-1]
    ascend = tf.reduce_all((steps == 0) | (steps == 1)) & tf.reduce_all(number_C[:1] == 0)
    checks = [
        tf.debugging.Assert(ascend, [f"{REQUEST_NUMBER}: 0, then as high as before or by one more; got", number_C])
    ]
    requests = tf.reduce_max(tf.concat([number_C, [0]], 0)) + 1
    agree = tf.reduce_all(tf.equal(rows, requests) | tf.equal(rows, tf.size(number_C)))
    what = f"rank: each input needs one row, or one for each candidate; rows of {', '.join(names)}:"
    checks.append(tf.debugging.Assert(agree, [what, rows], summarize=len(names)))
    input_of = input_names(columns.values())
    lists = [input_of[name] for name, column in columns.items() if column.is_list]
    checks += _list_checks(lists, inputs) if lists else []
    for name, column in columns.items():
        for other in column.beside:
            checks.append(_beside_check(input_of[name] + LENGTH, input_of[other] + LENGTH, inputs))
    with tf.control_dependencies(checks):
        # One operation: one for each input, each behind all checks, would take minutes with 2,000 of them.
        whole = tf.identity_n([number_C, *(inputs[name] for name in names)])
    return whole[0], dict(zip(names, whole[1:], strict=True))


def _num_rows(inputs: Mapping[str, tf.Tensor]) -> tuple[list[str], tf.Tensor]:
    """Returns the sorted names of all inputs, and the number of rows of each: int32."""

    def kind(name: str) -> tuple[str, int]:
        return inputs[name].dtype.name, inputs[name].shape.rank

    by_kind = sorted(inputs, key=kind)
    of_kinds = [[inputs[name] for name in of_kind] for _, of_kind in itertools.groupby(by_kind, key=kind)]
    rows = tf.concat([tf.stack(tf.shape_n(of_kind))[:, 0] for of_kind in of_kinds], 0)
    order = sorted(range(len(by_kind)), key=lambda index: by_kind[index])
    return [by_kind[index] for index in order], tf.gather(rows, order)


def _list_checks(names: Sequence[str], inputs: Mapping[str, tf.Tensor]) -> list[tf.Operation]:
    """Returns checks of the lengths of all lists together."""
    names = sorted(names, key=lambda name: inputs[name].dtype.name)
    lengths_F = [inputs[name + LENGTH] for name in names]
    num_lengths_F = tf.concat(tf.shape_n(lengths_F, tf.int64), 0)
    shapes_F2 = _shapes([inputs[name] for name in names])
    lengths_R, feature_R = tf.concat(lengths_F, 0), numbers_of(num_lengths_F)
    is_wrong_R = (lengths_R < 0) | (lengths_R > tf.gather(shapes_F2[:, 1], feature_R))
    is_wrong_F = tf.math.unsorted_segment_sum(tf.cast(is_wrong_R, tf.int32), feature_R, len(names)) > 0
    both = [f"{name} and {name}{LENGTH}" for name in names]
    within = [f"{name}{LENGTH} from 0 to the width of {name}" for name in names]
    return [
        _none_of(shapes_F2[:, 0] != num_lengths_F, both, "rank: as many rows are needed in"),
        _none_of(is_wrong_F, within, "rank: lengths must be in"),
    ]


def _none_of(is_wrong_F: tf.Tensor, what_F: Sequence[str], needed: str) -> tf.Operation:
    wrong = tf.boolean_mask(tf.constant(list(what_F)), is_wrong_F)
    return tf.debugging.Assert(~tf.reduce_any(is_wrong_F), [needed, wrong], summarize=len(what_F))


def _beside_check(name: str, other: str, inputs: Mapping[str, tf.Tensor]) -> tf.Operation:
    one, two = inputs[name], inputs[other]
    # Compared element by element only where the shapes agree.
    agree = tf.cond(tf.equal(tf.size(one), tf.size(two)), lambda: tf.reduce_all(tf.equal(one, two)), lambda: False)
    return tf.debugging.Assert(agree, [f"rank: {name} and {other} must be equal; got", one, two])


def _shapes(padded: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns rows and widths of lists, of which those of a type follow one another: [F, 2] int64."""
    of_types = [list(of_type) for _, of_type in itertools.groupby(padded, key=lambda each: each.dtype)]
    return tf.concat([tf.stack(tf.shape_n(of_type, tf.int64)) for of_type in of_types], 0)


def inputs_of(columns: Mapping[str, Column], parsed: Mapping[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """Returns the inputs that are equivalent to parsed tf.Examples."""
    inputs: dict[str, tf.Tensor] = {}
    names = input_names(columns.values())
    for kind, dtype in TYPES.items():
        of_kind = [name for name, column in columns.items() if column.type == kind]
        if scalars := [name for name in of_kind if not columns[name].is_list]:
            rows = stacked([parsed[name] for name in scalars]).one_each(tf.constant(MISSING[kind], dtype))
            inputs |= zip((names[name] for name in scalars), rows.parts(), strict=True)
        if lists := [name for name in of_kind if columns[name].is_list]:
            values = stacked([parsed[name] for name in lists])
            lengths = Rows(values.lengths_R(), values.rows_F, values.num).parts()
            for name, of_list in zip(lists, lengths, strict=True):
                inputs[names[name]], inputs[names[name] + LENGTH] = tf.sparse.to_dense(parsed[name]), of_list
    return inputs
