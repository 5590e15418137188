"""Lists of ids and what is beside them, weights or more of the same events, cut to the spec's lengths."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import tensorflow as tf

from sangam.schemas.derived.columns import at_of, event_of, times_of
from sangam.schemas.derived.rank_inputs import MISSING
from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec.events import EventId
from sangam.schemas.spec.features import Feature, IdsFeature, ListFeature, SequenceFeature
from sangam.trainer_module.transforms.columns import one_value
from sangam.trainer_module.transforms.ids import texts_of, with_keys
from sangam.trainer_module.transforms.keys import id_keys
from sangam.trainer_module.transforms.stacked import ListColumn, Logged, Made, Values, alone, stacked

# Shape suffixes: F features side by side; n values of all their columns, before and after they are cut.


def most_values(feature: ListFeature) -> int:
    """Returns the most ids that are kept of a list."""
    return feature.max_length if isinstance(feature, SequenceFeature) else feature.max_values


class _Ids(NamedTuple):
    """A list of ids of a feature, or of the events of one."""

    feature: ListFeature
    type: IdType
    table: str
    column: Logged


def keys_of_lists(
    features: Mapping[str, Feature], tags: Mapping[str, int], columns: Mapping[str, Sequence[Logged]]
) -> dict[str, ListColumn]:
    """Returns the keys of each row's ids, of a sequence the most recent one first: {output: int64, sparse}.

    Args:
        features: features by name, of which those of lists are read.
        tags: tags of tables by name.
        columns: columns of each feature.
    """
    found = dict(_lists_of_ids(features, columns))
    if not found:
        return {}
    names, texts = texts_of(found, {name: each.column for name, each in found.items()})
    tag_n = texts.in_values([tags[found[name].table] for name in names])
    keys = with_keys(texts, id_keys(tag_n, texts.values_n))
    kept = _kept(keys, [found[name].feature for name in names])
    return _lists(kept, {name: found[name].column for name in names})


def _lists_of_ids(
    features: Mapping[str, Feature], columns: Mapping[str, Sequence[Logged]]
) -> Iterator[tuple[str, _Ids]]:
    for name, feature in features.items():
        if isinstance(feature, ListFeature):
            yield name, _Ids(feature, feature.type, feature.table, columns[name][0])
        if isinstance(feature, SequenceFeature):
            for (part, each), column in zip(feature.beside.items(), columns[name][1:], strict=False):
                if isinstance(each, EventId):
                    yield event_of(name, part), _Ids(feature, each.type, each.table, column)


def events_of(features: Mapping[str, SequenceFeature], columns: Mapping[str, Sequence[Logged]]) -> dict[str, Made]:
    """Returns amounts and times of events, in the order of the keys of `keys_of_lists`, and the times of the rows.

    Args:
        features: sequences by name.
        columns: columns of each.
    """
    made: dict[str, Made] = {}
    aligned: dict[str, tuple[SequenceFeature, Logged]] = {}
    for name, feature in features.items():
        _, *beside = columns[name]
        for (part, each), column in zip(feature.beside.items(), beside, strict=False):
            if not isinstance(each, EventId):
                aligned[event_of(name, part)] = feature, column
        if feature.times:
            aligned[times_of(name)] = feature, beside[-2]
            made[at_of(name)] = one_value(alone(beside[-1]), tf.constant(MISSING["int"], tf.int64))
    times = {times_of(name) for name in features}
    for kind, is_time in dict.fromkeys((column.dtype, name in times) for name, (_, column) in aligned.items()):
        chosen = {name: each for name, each in aligned.items() if (each[1].dtype, name in times) == (kind, is_time)}
        values = stacked([column for _, column in chosen.values()])
        if not is_time:
            values = with_keys(values, tf.cast(values.values_n, tf.float32))
        kept = _kept(values, [feature for feature, _ in chosen.values()])
        made |= _lists(kept, {name: column for name, (_, column) in chosen.items()})
    return made


def _kept(values: Values, features: Sequence[ListFeature]) -> Values:
    """Returns what is kept of the list of each feature, the most recent value of a sequence first."""
    ends_with_recent = [isinstance(feature, SequenceFeature) and feature.keep == "last" for feature in features]
    if any(ends_with_recent):
        values = _turned_round(values, tf.constant(ends_with_recent))
    return values.first(list(map(most_values, features)))


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
