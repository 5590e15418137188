"""Deals examples to batches and ranks so that each has about as many ids: in a step all ranks wait for the fullest one.

Suffixes of shapes: n rows; G groups of N rows.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from sangam.schemas.derived.columns import feature_columns
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.features import ListFeature
from sangam.trainer_module.input.blocks import Rows, Table
from sangam.trainer_module.transforms.lists import most_values

_LARGEST_BATCH = 256
"""Larger batches have about as many ids by themselves, and dealing costs more than it gains: ADR 0060."""


def lists_of(spec: RankerSpec, *, is_raw: bool) -> dict[str, tuple[str, int]]:
    """Returns the column of each feature of lists and the most ids that it keeps of it; none where batches are large.

    Args:
        spec: declares the features.
        is_raw: whether the rows are those of the logs, not Transform's.
    """
    if spec.training.batch_size_per_rank > _LARGEST_BATCH:
        return {}
    lists = {name: feature for name, feature in spec.features.items() if isinstance(feature, ListFeature)}
    return {
        name: (feature_columns(spec, name)[0].name if is_raw else name, most_values(feature))
        for name, feature in lists.items()
    }


def ids_counter(table: Table, lists: Mapping[str, tuple[str, int]]) -> Callable[[Rows], tf.Tensor] | None:
    """Returns a function that returns each row's number of ids in lists: [n]; None where all rows have as many."""
    if not lists:
        return None
    kinds = {column: kind for kind, names in table.names.items() for column in names}

    def count(rows: Rows) -> tf.Tensor:
        counts = []
        for column, most in lists.values():
            _, lengths_Fn = rows[kinds[column]]
            counts.append(tf.minimum(lengths_Fn[table.names[kinds[column]].index(column)], most))
        return tf.add_n(counts)

    return count


def dealt(sizes_GN: tf.Tensor, parts: tf.Tensor | int) -> tf.Tensor:
    """Returns an order of each group's rows in which equal parts have sizes of about equal sum: [G, N] int64.

    Largest first, one row to each part, and back and forth: sums differ by less than the largest size.

    Args:
        sizes_GN: sizes of the rows.
        parts: number of parts, which divides N; they follow one another.
    """
    shape = tf.shape(sizes_GN, tf.int64)
    parts = tf.maximum(tf.cast(parts, tf.int64), 1)
    descending = tf.cast(tf.argsort(sizes_GN, direction="DESCENDING", stable=True), tf.int64)
    rounds_GRP = tf.reshape(descending, tf.stack([shape[0], shape[1] // parts, parts]))
    is_back_R = tf.range(shape[1] // parts) % 2 == 1
    back_and_forth = tf.where(is_back_R[:, None], tf.reverse(rounds_GRP, [2]), rounds_GRP)
    return tf.reshape(tf.transpose(back_and_forth, [0, 2, 1]), shape)
