"""Ids: keys of embedding rows, of one id, of crosses of two, of lists; and whether an id is in a list."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import tensorflow as tf

from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec.features import CrossFeature, IdFeature, MatchFeature
from sangam.trainer_module.transforms.columns import is_present, one_value
from sangam.trainer_module.transforms.keys import NO_ID, id_keys, missing_key
from sangam.trainer_module.transforms.stacked import Column, Logged, Rows, Values
from sangam.trainer_module.transforms.texts import stacked_texts

_Key = TypeVar("_Key")

# Shape suffixes: F features side by side; R rows of all their columns; n values of all columns; I ids, C candidates.


def keys_of_ids(
    features: Mapping[str, IdFeature], tags: Mapping[str, int], columns: Mapping[str, Logged]
) -> dict[str, Column]:
    """Returns the key of each row's id, or of a missing one: {feature: int64 [rows]}.

    Args:
        features: features by name.
        tags: tags of tables by name.
        columns: column of each feature.
    """
    names, texts = texts_of(features, columns)
    tag_F = [tags[features[name].table] for name in names]
    keys_n = id_keys(texts.in_values(tag_F), texts.values_n)
    rows = with_keys(texts, keys_n).one_each(tf.constant(NO_ID, tf.int64))
    missing_R = rows.in_rows(_missing([features[name] for name in names], tag_F))
    keys_R = tf.where(tf.equal(rows.values_R, NO_ID), missing_R, rows.values_R)
    return dict(zip(names, rows.with_values(keys_R).columns(), strict=True))


class _HasIds(Protocol):
    @property
    def type(self) -> IdType: ...


def texts_of(features: Mapping[str, _HasIds], columns: Mapping[str, Logged]) -> tuple[list[str], Values]:
    """Returns features of one column of ids each in the order of `stacked_texts`, and their ids as texts."""
    names = texts_first({name: feature.type for name, feature in features.items()})
    return names, stacked_texts([columns[name] for name in names])


def texts_first(types: Mapping[_Key, str]) -> list[_Key]:
    """Returns the names of ids of these types in the order of `stacked_texts`."""
    return sorted(types, key=lambda key: ("string", "int", "float").index(types[key]))


def with_keys(values: Values, keys_n: tf.Tensor) -> Values:
    """Returns keys instead of values."""
    return replace(values, values_n=keys_n)


def key_of(tag: int, value: str | int) -> tf.Tensor:
    """Returns the key of an id that the spec declares: int64 scalar."""
    return id_keys(tag, tf.constant([str(value)]))[0]


def _missing(features: Sequence[IdFeature], tag_F: list[int]) -> tf.Tensor:
    """Returns the key of a missing id of each feature: [F]."""
    rows = [missing_key(tag) if each.missing_row else NO_ID for each, tag in zip(features, tag_F, strict=True)]
    declared_F = id_keys(tf.constant(tag_F, tf.int64), tf.constant([str(feature.missing) for feature in features]))
    is_declared_F = tf.constant([feature.missing is not None for feature in features])
    return tf.where(is_declared_F, declared_F, tf.constant(rows, tf.int64))


def keys_of_pairs(
    features: Mapping[str, CrossFeature],
    tags: Mapping[str, int],
    columns: Mapping[str, Sequence[Logged]],
) -> dict[str, Column]:
    """Returns the key of each row's pair of ids: {feature: int64 [rows]}.

    The hashed text begins with the length of the first id in bytes, so that different pairs have different texts: 2 and
    34 is `1:234`, 23 and 4 is `2:234`. The first id is of the column whose name sorts first, in whatever order the spec
    lists them.

    Args:
        features: features by name.
        tags: tags of tables by name.
        columns: the two of each feature, in the order of their names.
    """
    names = list(features)
    types = {(name, side): kinds for name in names for side, kinds in enumerate(_types(features[name]))}
    order = texts_first(types)
    texts = stacked_texts([columns[name][side] for name, side in order])
    # The number of a row's value, from 1; 0 where it has none.
    number_R = with_keys(texts, tf.range(1, tf.size(texts.values_n) + 1)).one_each(0).values_R
    index = {where: number for number, where in enumerate(order)}
    sides = [tf.constant([index[name, side] for name in names]) for side in (0, 1)]
    rows_F = [tf.gather(texts.rows_F, side_F) for side_F in sides]
    common_F = tf.where(tf.equal(rows_F[0], 1), rows_F[1], rows_F[0])
    pairs = Rows(tf.ragged.range(common_F).flat_values, common_F, len(names))
    start_F = tf.cumsum(texts.rows_F, exclusive=True)
    sides_R = [_of_side(pairs, tf.gather(start_F, side_F), rows) for side_F, rows in zip(sides, rows_F, strict=True)]
    first_R, second_R = (tf.gather(number_R, row_R) for row_R in sides_R)
    with_none = tf.concat([[""], texts.values_n], 0)
    first_text_R, second_text_R = tf.gather(with_none, first_R), tf.gather(with_none, second_R)
    length_R = tf.strings.as_string(tf.strings.length(first_text_R))
    tag_F = [tags[feature.table] for feature in features.values()]
    feature_R = pairs.feature_R()
    pair_R = tf.strings.join([length_R, ":", first_text_R, second_text_R])
    keys_R = id_keys(tf.gather(tf.constant(tag_F, tf.int64), feature_R), pair_R)
    missing = [
        missing_key(tag) if each.missing_row else NO_ID for each, tag in zip(features.values(), tag_F, strict=True)
    ]
    missing_R = tf.gather(tf.constant(missing, tf.int64), feature_R)
    is_given_R = (first_R > 0) & (second_R > 0)
    return dict(zip(names, pairs.with_values(tf.where(is_given_R, keys_R, missing_R)).columns(), strict=True))


def _types(feature: CrossFeature) -> list[str]:
    return [kind for _, kind in sorted(feature.columns.items())]


def _of_side(pairs: Rows, start_F: tf.Tensor, rows_F: tf.Tensor) -> tf.Tensor:
    """Returns the row of one id of each pair among all columns' rows; a column of one row has it for all."""
    feature_R = pairs.feature_R()
    step_F = tf.cast(rows_F > 1, tf.int64)
    return tf.gather(start_F, feature_R) + pairs.values_R * tf.gather(step_F, feature_R)


def keys_of_numbers(tag: int, number_R: tf.Tensor, is_given_R: tf.Tensor, *, missing_row: bool) -> tf.Tensor:
    """Returns the keys of whole numbers such as hours: int64 [R]."""
    missing = tf.constant(missing_key(tag) if missing_row else NO_ID, tf.int64)
    return tf.where(is_given_R, id_keys(tag, number_R), missing)


def matches(
    feature: MatchFeature, one: tf.SparseTensor, among: tf.SparseTensor, request_C: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns 1 where a row's id is among its list's, otherwise 0: float32 [R].

    No list is repeated for its ids: each id, and then each pair of a list and an id, gets a number. That is linear in
    all ids, where a comparison of each candidate with a user's whole list was not.

    Args:
        feature: the feature.
        one: ids; rows as below.
        among: lists; as many, or one for all ids, or one for each request; or the reverse.
        request_C: number of each candidate's request; None: there is one.
    """
    id_I = one_value(one, "" if feature.type == "string" else tf.constant(0, tf.int64))
    num_ids, num_lists = tf.size(id_I, tf.int64), among.dense_shape[0]
    if request_C is None:
        longer = tf.maximum(num_ids, num_lists)
        request_C = tf.zeros(
            tf.where(tf.minimum(num_ids, num_lists) == 0, tf.zeros_like(longer), longer)[None], tf.int32
        )
    rows = tf.where(num_ids == num_lists, num_ids, tf.size(request_C, tf.int64))

    def of_rows(count: tf.Tensor) -> tf.Tensor:
        return tf.cond(count == rows, lambda: tf.range(rows), lambda: tf.cast(request_C, tf.int64))

    numbered = tf.unique(tf.concat([among.values, id_I], 0), tf.int64)
    of_lists_n, of_ids_I = tf.split(numbered.idx, tf.stack([tf.size(among.values, tf.int64), num_ids]), num=2)
    most, id_R = tf.size(numbered.y, tf.int64), of_rows(num_ids)
    pairs = tf.unique(
        tf.concat([among.indices[:, 0] * most + of_lists_n, of_rows(num_lists) * most + tf.gather(of_ids_I, id_R)], 0)
    )
    pair_n, pair_R = tf.split(pairs.idx, tf.stack([tf.size(of_lists_n, tf.int64), rows]), num=2)
    hits = tf.math.unsorted_segment_sum(tf.ones_like(pair_n, tf.float32), pair_n, tf.size(pairs.y))
    is_given_R = tf.gather(is_present(one), id_R)
    return tf.where(is_given_R, tf.minimum(tf.gather(hits, pair_R), 1.0), 0.0)
