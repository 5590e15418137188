"""One user with many candidates: what all candidates share is looked up and pooled once."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from schemas.derived.columns import weights_of
from trainer_module.dense.weights import Weights
from trainer_module.encoders.lists import Lists
from trainer_module.input.batch import Columns, ragged
from trainer_module.ranker import Ranker
from trainer_module.serving.table import ServedTable

# Shape suffixes: R rows of one feature, 1 or C; C candidates; F features; n keys; D dimension; I model inputs.


def candidate_logits(
    ranker: Ranker, weights: Weights, columns: Columns, tables: Mapping[str, ServedTable], candidates: tf.Tensor
) -> tf.Tensor:
    """Returns [candidates, tasks]: the same numbers as if each feature of one row had been repeated.

    Args:
        ranker: that scores.
        weights: dense weights by name.
        columns: features as predictions see them, each of one row or one for each candidate.
        tables: rows by group.
        candidates: number of them, int32 scalar.
    """
    parts_CI = []
    if ranker.layout.floats:
        names, widths = zip(*ranker.layout.floats, strict=True)
        rows = tf.stack([tf.shape(columns[name])[0] for name in names])
        floats = tf.concat([tf.reshape(columns[name], [-1]) for name in names], 0)
        parts_CI.append(_for_all(floats, rows, widths, candidates))
    found = {group: _Group(ranker, group, columns, table) for group, table in tables.items()}
    for of_group in found.values():
        vectors, rows = of_group.vectors(weights, found)
        vectors_CFD = _for_all(vectors, rows, [1] * rows.shape[0], candidates)
        parts_CI.append(tf.reshape(vectors_CFD, tf.stack([candidates, rows.shape[0] * of_group.dim])))
    return ranker.logits_of_inputs(weights, tf.concat(parts_CI, axis=1))


class _Group:
    """The rows of a group's features, all found at once."""

    def __init__(self, ranker: Ranker, group: str, columns: Columns, table: ServedTable):
        self._ranker, self._group, self._columns = ranker, group, columns
        self.dim = ranker.groups[group].dim
        layout = ranker.layout
        self._ids = [columns[name] for name in layout.ids[group]]
        combined, encoded = ranker.combined_features(group), layout.encoded[group]
        self._lists = {name: ragged(columns[name]) for name in (*combined, *encoded)}
        flat = {name: column.flat_values for name, column in self._lists.items()}
        rows_nD = table(tf.concat([*self._ids, *flat.values()], 0))
        sizes = [tf.size(part) for part in (*self._ids, *flat.values())]
        rows = tf.split(rows_nD, sizes, num=len(sizes)) if len(sizes) > 1 else [rows_nD]
        self.id_rows = rows[: len(self._ids)]
        self._list_rows = dict(zip(flat, rows[len(self._ids) :], strict=True))

    def vectors(self, weights: Weights, groups: Mapping[str, "_Group"]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the vectors of all features, one behind the other, and how many rows each has: [n, dim] and [F]."""
        parts, rows = list(self.id_rows), [tf.shape(part)[0] for part in self.id_rows]
        if combined := self._ranker.combined_features(self._group):
            lengths = [self._lists[name].row_lengths() for name in combined]
            rows_F = tf.stack([tf.size(of_feature) for of_feature in lengths])
            values = tf.concat([self._list_rows[name] for name in combined], 0)
            combiners = tf.repeat(self._ranker.combiners(self._group), rows_F)
            weighted = self._ranker.layout.weighted[self._group]
            list_weights = [ragged(self._columns[weights_of(name)]).flat_values for name in weighted]
            weights_m = tf.concat(list_weights, 0) if weighted else None
            parts.append(self._ranker.combine(values, tf.concat(lengths, 0), combiners, weights_m))
            rows += tf.unstack(rows_F)
        for name in self._ranker.layout.encoded[self._group]:
            lists = Lists(self._list_rows[name], self._lists[name].row_lengths())
            place = self._ranker.target_of(name)
            target = groups[place[0]].id_rows[place[1]] if place else None
            parts.append(self._ranker.encoders[name](weights, lists, target))
            rows.append(tf.shape(parts[-1])[0])
        return tf.concat(parts, 0), tf.stack(rows)


def _for_all(flat: tf.Tensor, rows_F: tf.Tensor, widths: Sequence[int], candidates: tf.Tensor) -> tf.Tensor:
    """Returns features side by side, those of one row for every candidate: [C, sum of widths, ...].

    Args:
        flat: values of the features one behind the other, row after row: [sum of rows times width, ...].
        rows_F: of each feature.
        widths: values in a row of each.
        candidates: number of them.
    """
    feature_I = np.repeat(np.arange(len(widths)), widths)
    within_I = np.concatenate([np.arange(width) for width in widths])
    widths_F = tf.constant(widths, tf.int32)
    starts_F = tf.cumsum(rows_F * widths_F, exclusive=True)
    # From one candidate's row to the next; a feature with one row has it for all.
    strides_F = tf.where(rows_F > 1, widths_F, 0)
    first_I = tf.gather(starts_F, feature_I) + tf.constant(within_I, tf.int32)
    return tf.gather(flat, first_I + tf.range(candidates)[:, None] * tf.gather(strides_F, feature_I))
