"""Ids: keys of embedding rows, crosses of two, lists with weights, and whether an id is in a list."""

import tensorflow as tf

from schemas.features import BucketsFeature, CrossFeature, IdFeature, IdsFeature, MatchFeature, SequenceFeature
from trainer_module.keys import NO_ID, id_keys, missing_key
from trainer_module.transforms.columns import head, is_present, num_values, one_value, rows_of_both, turned_round
from trainer_module.transforms.numbers import buckets

# Shape suffixes: R rows of a column; n values of all its rows, k those of a list repeated.


def keys_of_ids(feature: IdFeature, tag: int, column: tf.SparseTensor) -> tf.Tensor:
    """Returns the key of each row's id, and of what stands for a missing one: int64 [R]."""
    if feature.missing_row:
        missing = tf.constant(missing_key(tag), tf.int64)
    elif feature.missing is None:
        missing = tf.constant(NO_ID, tf.int64)
    else:
        missing = constant_keys(tag, feature.missing)[0]
    return one_value(sparse_keys(tag, column), missing)


def constant_keys(tag: int, value: str | int) -> tf.Tensor:
    """Returns the key of an id that the spec declares: int64 [1]."""
    return id_keys(tag, tf.constant([value], tf.string if isinstance(value, str) else tf.int64))


def sparse_keys(tag: int, column: tf.SparseTensor) -> tf.SparseTensor:
    """Returns the keys of all ids: int64, sparse as the column is."""
    return tf.SparseTensor(column.indices, id_keys(tag, column.values), column.dense_shape)


def keys_of_numbers(tag: int, number_R: tf.Tensor, is_present_R: tf.Tensor, *, missing_row: bool) -> tf.Tensor:
    """Returns the keys of whole numbers such as buckets and hours: int64 [R]."""
    missing = tf.constant(missing_key(tag) if missing_row else NO_ID, tf.int64)
    return tf.where(is_present_R, id_keys(tag, number_R), missing)


def keys_of_buckets(feature: BucketsFeature, tag: int, lowest: tf.Tensor, x_R: tf.Tensor) -> tf.Tensor:
    """Returns the key of each number's bucket: int64 [R]."""
    given_R = ~tf.math.is_nan(x_R)
    return keys_of_numbers(tag, buckets(lowest, x_R), given_R, missing_row=feature.missing_row)


def keys_of_pairs(feature: CrossFeature, tag: int, columns: tuple[tf.SparseTensor, tf.SparseTensor]) -> tf.Tensor:
    """Returns the key of each pair: int64 [R].

    The text that is hashed begins with the length of the first id in bytes, so that no two pairs have one text: 2 and
    34 is `1:234`, 23 and 4 is `2:234`.

    Args:
        feature: declared.
        tag: of its table.
        columns: in the order of their names, however the spec lists them.
    """
    texts = [_texts(column) for column in columns]
    rows = rows_of_both(*texts)
    first_R, second_R = (tf.broadcast_to(text, rows) for text in texts)
    length_R = tf.strings.as_string(tf.strings.length(first_R))
    pair_R = tf.strings.join([length_R, ":", first_R, second_R])
    given_R = is_present(columns[0]) & is_present(columns[1])
    missing = tf.constant(missing_key(tag) if feature.missing_row else NO_ID, tf.int64)
    return tf.where(given_R, id_keys(tag, pair_R), missing)


def _texts(column: tf.SparseTensor) -> tf.Tensor:
    """Returns ids as text: [R] string."""
    values = column.values if column.values.dtype == tf.string else tf.strings.as_string(column.values)
    return one_value(tf.SparseTensor(column.indices, values, column.dense_shape), "")


def keys_of_sequences(feature: SequenceFeature, tag: int, column: tf.SparseTensor) -> tf.SparseTensor:
    """Returns the keys of each row's most recent ids, the most recent one first: int64, sparse."""
    recent_first = turned_round(column) if feature.keep == "last" else column
    return sparse_keys(tag, head(recent_first, feature.max_length))


def keys_of_lists(feature: IdsFeature, tag: int, column: tf.SparseTensor) -> tf.SparseTensor:
    """Returns the keys of each row's ids: int64, sparse."""
    return sparse_keys(tag, head(column, feature.max_values))


def weights_of_lists(feature: IdsFeature, ids: tf.SparseTensor, weights: tf.SparseTensor) -> tf.SparseTensor:
    """Returns the weights of each row's ids: float32, sparse as `keys_of_lists`.

    One that is not finite is 0, so that its id counts nothing; ingestion leaves such pairs out.

    Raises:
        InvalidArgumentError: by the graph, unless every row has as many weights as ids.
    """
    what = f"{feature.weights}: each id needs its weight; values of each row, of ids and weights:"
    ids_R, weights_R = num_values(ids), num_values(weights)
    rows = tf.minimum(tf.size(ids_R), tf.size(weights_R))
    same = tf.equal(tf.size(ids_R), tf.size(weights_R)) & tf.reduce_all(tf.equal(ids_R[:rows], weights_R[:rows]))
    checked = tf.debugging.Assert(same, [what, ids_R, weights_R])
    with tf.control_dependencies([checked]):
        finite = tf.where(tf.math.is_finite(weights.values), weights.values, 0.0)
        weights = tf.SparseTensor(weights.indices, tf.identity(finite), weights.dense_shape)
    return head(weights, feature.max_values)


def matches(feature: MatchFeature, one: tf.SparseTensor, among: tf.SparseTensor) -> tf.Tensor:
    """Returns 1 where a row's id is among its list's, otherwise 0: float32 [R]."""
    id_R = one_value(one, "" if feature.type == "string" else tf.constant(0, tf.int64))
    given_R = is_present(one)
    num_lists = among.dense_shape[0]
    rows = tf.maximum(tf.size(id_R, tf.int64), num_lists)
    rows = tf.where(tf.equal(tf.size(id_R), 0) | tf.equal(num_lists, 0), tf.zeros_like(rows), rows)
    # One user's list, for every candidate: it is repeated, as many times as there are rows for each of its own.
    times = rows // tf.maximum(num_lists, 1)
    row_k = tf.reshape(among.indices[None, :, 0] + tf.range(times)[:, None] * num_lists, [-1])
    value_k = tf.tile(among.values, times[None])
    ids_R, given_R = tf.broadcast_to(id_R, rows[None]), tf.broadcast_to(given_R, rows[None])
    hit_k = tf.equal(tf.gather(ids_R, row_k), value_k) & tf.gather(given_R, row_k)
    hits_R = tf.math.unsorted_segment_sum(tf.cast(hit_k, tf.float32), row_k, rows)
    return tf.minimum(hits_R, 1.0)
