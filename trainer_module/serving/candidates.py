"""Users with many candidates each: features that all candidates of one share are looked up and pooled once."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from sangam.schemas.derived.columns import at_of, times_of, weights_of
from sangam.trainer_module.dense.split import Requests, Split, of_vectors
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.embedded import ListsToCombine
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.events import Beside
from sangam.trainer_module.input.batch import TensorsByName, ragged
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.serving.table import ServedTable
from sangam.trainer_module.transforms.ranges import numbers_of
from sangam.trainer_module.transforms.stacked import ListColumn, Made, taken_out
from sangam.trainer_module.transforms.times import ages_of_events

# Shape suffixes: R rows of one feature, Q or C; Q requests; C candidates of all of them; F features; n keys;
# D dimension; I model inputs.


def candidate_logits(
    ranker: Ranker, weights: Weights, columns: TensorsByName, tables: Mapping[str, ServedTable], requests: Requests
) -> tf.Tensor:
    """Returns [candidates, tasks]: the same numbers as if a request's features were repeated for each candidate.

    Args:
        ranker: the model.
        weights: dense weights by name.
        columns: features as predictions see them, each of one row for each request or one for each candidate.
        tables: rows by group.
        requests: the candidates' requests.
    """
    return ranker.logits_of_inputs(weights, ranker.inputs_of(weights, _Candidates(ranker, columns, tables, requests)))


def in_request(made: Mapping[str, Made]) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """Returns Transform's outputs, each as a tensor of its own, lists as ragged ones."""
    lists = {name: column.ragged() for name, column in made.items() if isinstance(column, ListColumn)}
    others = taken_out({name: column for name, column in made.items() if name not in lists})
    return lists | {
        name: ragged(column) if isinstance(column, tf.SparseTensor) else column for name, column in others.items()
    }


class _Candidates:
    """The rows of all candidates, with shared features held once a request. See `EmbeddedRows`."""

    def __init__(
        self, ranker: Ranker, columns: TensorsByName, tables: Mapping[str, ServedTable], requests: Requests
    ) -> None:
        self._layout, self._columns, self._requests = ranker.layout, columns, requests
        self._dims = {name: group.dim for name, group in ranker.groups.items()}
        self._embeddings: dict[str, tf.Tensor] = {}
        """Embeddings of each feature, [rows or values, D]."""
        self._sizes: dict[str, tf.Tensor] = {}
        """How many these are: [1] int32."""
        for group, table in tables.items():
            names = (*self._layout.ids[group], *self._layout.lists(group))
            keys = [_values(columns[name]) for name in names]
            sizes = tf.shape_n(keys)
            rows_nD = table(tf.concat(keys, 0))
            parts = tf.split(rows_nD, tf.concat(sizes, 0), num=len(keys)) if len(keys) > 1 else [rows_nD]
            self._embeddings |= zip(names, parts, strict=True)
            self._sizes |= zip(names, sizes, strict=True)

    def floats(self) -> Split:
        names, widths = zip(*self._layout.floats, strict=True)
        columns = [self._columns[name] for name in names]
        rows = tf.concat([shape if shape.shape == [1] else shape[:1] for shape in tf.shape_n(columns)], 0)
        flat = [column if column.shape.rank == 1 else tf.reshape(column, [-1]) for column in columns]
        return _split(tf.concat(flat, 0)[:, None], rows, widths, self._requests)

    def ids(self, group: str) -> Split:
        parts = [self._embeddings[name] for name in self._layout.ids[group]]
        rows = tf.concat([self._sizes[name] for name in self._layout.ids[group]], 0)
        return self.side_by_side(group, tf.concat(parts, 0), rows, len(parts))

    def id(self, group: str, index: int) -> tf.Tensor:
        return self._requests.for_each_row(self._embeddings[self._layout.ids[group][index]])

    def lists_to_combine(self, group: str) -> ListsToCombine:
        names, weighted = self._layout.combined(group), self._layout.weighted[group]
        of_features = [ragged(self._columns[name]).row_lengths() for name in names]
        lengths = tf.concat(of_features, 0)
        values = tf.concat([self._embeddings[name] for name in names], 0)
        weights = [_values(self._columns[weights_of(name)]) for name in weighted]
        return ListsToCombine(
            values,
            lengths,
            tf.concat(tf.shape_n(of_features), 0),
            tf.concat(weights, 0) if weighted else None,
            numbers_of(lengths),
        )

    def list_to_encode(self, group: str, feature: str) -> tuple[Lists, Beside]:
        del group
        lists = Lists(self._embeddings[feature], ragged(self._columns[feature]).row_lengths())
        amounts = {output: _values(self._columns[output]) for output in self._layout.amounts}
        rows, amounts = (self._layout.beside(feature, found) for found in (self._embeddings, amounts))
        if feature not in self._layout.timed:
            return lists, Beside(rows, amounts)
        return self._with_ages(feature, lists, Beside(rows, amounts))

    def _with_ages(self, feature: str, lists: Lists, beside: Beside) -> tuple[Lists, Beside]:
        """Returns lists with ages: one for each row where rows of a request differ in time, which few callers send."""
        of_row_B, num = self._requests.of_row_B, self._requests.num
        times_n, at_R = _values(self._columns[times_of(feature)]), self._columns[at_of(feature)]
        at_B = tf.cond(tf.equal(tf.size(at_R), tf.size(of_row_B)), lambda: at_R, lambda: tf.gather(at_R, of_row_B))
        at_Q = tf.math.unsorted_segment_max(at_B, of_row_B, num)
        is_each = tf.reduce_any(tf.not_equal(tf.gather(at_Q, of_row_B), at_B))
        is_each &= tf.size(lists.lengths_R) != tf.size(of_row_B)

        def each(flat_n: tf.Tensor) -> tf.Tensor:
            repeated = functools.partial(tf.gather, _of_lists(flat_n, lists.lengths_R), of_row_B)
            return tf.cond(is_each, lambda: repeated().flat_values, lambda: flat_n)

        lengths_R = tf.cond(is_each, lambda: tf.gather(lists.lengths_R, of_row_B), lambda: lists.lengths_R)
        at_R = tf.cond(tf.equal(tf.size(lengths_R), tf.size(of_row_B)), lambda: at_B, lambda: at_Q)
        ages_n = ages_of_events(each(times_n), lengths_R, at_R)
        rows, amounts = ({part: each(flat) for part, flat in found.items()} for found in beside)
        return Lists(each(lists.values_nD), lengths_R, ages_n), Beside(rows, amounts)

    def for_targets(self, lists: Lists) -> Lists:
        values = self._requests.for_each_row(_of_lists(lists.values_nD, lists.lengths_R))
        ages_n = lists.ages_n
        if ages_n is not None:
            ages_n = self._requests.for_each_row(_of_lists(ages_n, lists.lengths_R)).flat_values
        return replace(lists, values_nD=values.flat_values, lengths_R=values.row_lengths(), ages_n=ages_n)

    def of_targets(self, lists: Lists, num_targets: tf.Tensor) -> Lists:
        rows, num_lists = tf.size(self._requests.of_row_B), tf.size(lists.lengths_R)
        # As many lists as rows: each row has its own.
        list_C = tf.where(num_lists == rows, tf.range(rows), self._requests.of_row_B)
        return replace(lists, list_C=list_C[: tf.maximum(num_lists, num_targets)])

    def side_by_side(self, group: str, vectors: tf.Tensor, lists_per_feature: tf.Tensor, num_features: int) -> Split:
        return _split(
            tf.ensure_shape(vectors, [None, self._dims[group]]), lists_per_feature, [1] * num_features, self._requests
        )


def _of_lists(flat_n: tf.Tensor, lengths_R: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(flat_n, lengths_R, validate=False)


def _values(column: tf.Tensor | tf.SparseTensor | tf.RaggedTensor) -> tf.Tensor:
    if isinstance(column, tf.RaggedTensor):
        return column.flat_values
    return column.values if isinstance(column, tf.SparseTensor) else column


def _split(flat: tf.Tensor, rows_F: tf.Tensor, widths: Sequence[int], requests: Requests) -> Split:
    """Returns features side by side: [C, sum of widths * D].

    Features of one row for each request are shared by its candidates; of one for each candidate, all are its own.

    Args:
        flat: values of the features one behind the other, row after row: [sum of rows times width, D].
        rows_F: number of rows of each feature.
        widths: values in a row of each.
        requests: the candidates' requests.
    """
    dim, width_I = int(flat.shape[1]), tf.constant(np.repeat(widths, widths), tf.int32)
    feature_I = np.repeat(np.arange(len(widths)), widths)
    within_I = np.concatenate([np.arange(width) for width in widths])
    starts_F = tf.cumsum(rows_F * tf.constant(widths, tf.int32), exclusive=True)
    first_I = tf.gather(starts_F, feature_I) + tf.constant(within_I, tf.int32)
    candidates = tf.size(requests.of_row_B)
    is_shared_I = tf.gather((rows_F != candidates) & (candidates > requests.num), feature_I)
    at_S1, at_J = tf.where(is_shared_I), tf.where(~is_shared_I)[:, 0]
    row_C1, row_Q = tf.range(candidates)[:, None], tf.range(requests.num)
    at_S = at_S1[:, 0]
    shared_SQD = tf.gather(flat, tf.gather(first_I, at_S)[:, None] + row_Q * tf.gather(width_I, at_S)[:, None])
    own_CJ = tf.gather(first_I, at_J) + row_C1 * tf.gather(width_I, at_J)

    @functools.cache
    def whole() -> tf.Tensor:
        row_CI = tf.where(is_shared_I, requests.of_row_B[:, None], row_C1)
        return tf.reshape(tf.gather(flat, first_I + row_CI * width_I), tf.stack([candidates, len(feature_I) * dim]))

    shared_IQD = tf.scatter_nd(at_S1, shared_SQD, tf.cast(tf.stack([len(feature_I), requests.num, dim]), tf.int64))
    shared_QID = tf.ensure_shape(tf.transpose(shared_IQD, [1, 0, 2]), [None, len(feature_I), dim])
    return of_vectors(requests, shared_QID, tf.gather(flat, own_CJ), at_J, whole)
