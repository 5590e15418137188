"""Lists of ids and their weights, cut to the spec's lengths."""

from collections.abc import Mapping
from dataclasses import replace

import tensorflow as tf

from sangam.schemas.spec.features import IdsFeature, ListFeature, SequenceFeature
from sangam.trainer_module.transforms.ids import texts_of, with_keys
from sangam.trainer_module.transforms.keys import id_keys
from sangam.trainer_module.transforms.stacked import ListColumn, Logged, Values, stacked

# Shape suffixes: F features side by side; n values of all their columns, before and after they are cut.


def most_values(feature: ListFeature) -> int:
    """Returns the most ids that are kept of a list."""
    return feature.max_length if isinstance(feature, SequenceFeature) else feature.max_values


def keys_of_lists(
    features: Mapping[str, ListFeature], tags: Mapping[str, int], columns: Mapping[str, Logged]
) -> dict[str, ListColumn]:
    """Returns the keys of each row's ids, of a sequence the most recent one first: {feature: int64, sparse}.

    Args:
        features: features by name.
        tags: tags of tables by name.
        columns: column of each feature.
    """
    names, texts = texts_of(features, columns)
    tag_n = texts.in_values([tags[features[name].table] for name in names])
    keys = with_keys(texts, id_keys(tag_n, texts.values_n))
    ends_with_recent = [_keeps_last(features[name]) for name in names]
    if any(ends_with_recent):
        keys = _turned_round(keys, tf.constant(ends_with_recent))
    kept = keys.first([most_values(features[name]) for name in names])
    return _lists(kept, {name: columns[name] for name in names})


def weights_of_lists(
    features: Mapping[str, IdsFeature], ids: Mapping[str, Logged], columns: Mapping[str, Logged]
) -> dict[str, ListColumn]:
    """Returns the weight of each of the keys of `keys_of_lists`: {feature: float32, sparse}.

    A weight that is not finite becomes 0, so that its id does not count; ingestion leaves such pairs out.

    Args:
        features: features with weights by name.
        ids: columns of their ids.
        columns: columns of their weights.

    Raises:
        InvalidArgumentError: by the graph, unless every row has as many weights as ids.
    """
    names = list(features)
    of_ids = [ids[name] for name in names]
    weights = stacked([columns[name] for name in names])
    what = f"{', '.join(sorted({str(feature.weights) for feature in features.values()}))}: each id needs its weight"
    sizes = tf.stack(tf.shape_n([column.values for column in of_ids], tf.int64))[:, 0]
    rows = tf.stack([column.dense_shape for column in of_ids])[:, 0]
    as_many = tf.reduce_all(tf.equal(sizes, weights.sizes_F) & tf.equal(rows, weights.rows_F))
    with tf.control_dependencies([tf.debugging.Assert(as_many, [what, sizes, weights.sizes_F])]):
        indices = tf.concat([tf.identity(column.indices) for column in of_ids], 0)
        own = tf.identity(tf.stack([weights.row_n, weights.position_n], 1))
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(tf.equal(indices, own)), [what])]):
        finite_n = tf.where(tf.math.is_finite(weights.values_n), weights.values_n, 0.0)
    most = [feature.max_values for feature in features.values()]
    return _lists(with_keys(weights, finite_n).first(most), {name: columns[name] for name in names})


def _keeps_last(feature: ListFeature) -> bool:
    return isinstance(feature, SequenceFeature) and feature.keep == "last"


def _turned_round(values: Values, which_F: tf.Tensor) -> Values:
    """Returns some columns with each row from its last value to its first."""
    row_n = values.row_of_all_n()
    length_n = tf.gather(values.lengths_R(), row_n)
    turned_n = tf.gather(which_F, values.feature_n())
    position_n = tf.where(turned_n, length_n - 1 - values.position_n, values.position_n)
    longest = tf.reduce_max(tf.concat([position_n, [0]], 0)) + 1
    order = tf.argsort(row_n * longest + position_n)
    return replace(
        values,
        values_n=tf.gather(values.values_n, order),
        row_n=tf.gather(values.row_n, order),
        position_n=tf.gather(position_n, order),
    )


def _lists(values: Values, columns: Mapping[str, Logged]) -> dict[str, ListColumn]:
    """Returns the values of each feature, as wide as its column."""
    return {name: ListColumn(values, number, column) for number, (name, column) in enumerate(columns.items())}
