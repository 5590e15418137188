"""Embeddings of the features of several rows, in the ranker's two input forms.

`EmbeddedBatch` is the form of training and of `serving_default`; `serving.candidates` has the form of one user with
many candidates. `Ranker.inputs_of` reads both.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

import tensorflow as tf

from sangam.schemas.derived.columns import times_of
from sangam.trainer_module.dense.fused import Gathered
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.events import Beside
from sangam.trainer_module.input.batch import Batch, Layout, size_of
from sangam.trainer_module.placement import Placement

# Shape suffixes: B rows, S single-id features, M features whose embeddings are combined, n values, D dimension.


class ListsToCombine(NamedTuple):
    """The lists of a group's features whose embeddings are combined, feature after feature.

    Attributes:
        values_nD: embeddings.
        lengths: number of values in each list, int64.
        lists_per_feature: number of lists of each feature: scalar if all have equally many, else [M].
        weights: weights of the last values, for features with weights; None: no feature has weights.
        list_n: the list of each value, where it is known.
    """

    values_nD: tf.Tensor
    lengths: tf.Tensor
    lists_per_feature: tf.Tensor
    weights: tf.Tensor | None
    list_n: tf.Tensor | None = None


class Indexed(NamedTuple):
    """Embeddings of unique keys [u, dim], and the index of each requested key: [n] int32."""

    rows_uD: tf.Tensor
    index_n: tf.Tensor


class EmbeddedRows(Protocol):
    """B rows of features with embeddings in place of keys. `Input` is `Split` for all features or for none."""

    def floats(self) -> Input:
        """Returns [B, floats]."""

    def ids(self, group: str) -> Input | Gathered:
        """Returns a group's single-id embeddings, concatenated: [B, S * D], or `Gathered` to gather later."""

    def id(self, group: str, index: int) -> tf.Tensor:
        """Returns the embeddings of one single-id feature: [B, D], or [1, D] if all rows share one."""

    def lists_to_combine(self, group: str) -> ListsToCombine:
        """Returns the lists of `Layout.combined`."""

    def list_to_encode(self, group: str, feature: str) -> tuple[Lists, Beside]:
        """Returns the lists of an encoded feature, with the rows of ids, and what else is known of their events.

        There are B lists, or 1 if all rows share one, or one for each of several requests.
        """

    def for_targets(self, lists: Lists) -> Lists:
        """Returns lists that attend to targets: of several requests, one for each row."""

    def of_targets(self, lists: Lists, num_targets: tf.Tensor) -> Lists:
        """Returns the same lists, with the list of each row's target; of one where all rows share list and target."""

    def side_by_side(self, group: str, vectors: tf.Tensor, lists_per_feature: tf.Tensor, num_features: int) -> Input:
        """Returns vectors of a group's lists, feature after feature, as [B, num_features * D]."""


class EmbeddedBatch:
    """A batch with its embeddings."""

    def __init__(
        self,
        layout: Layout,
        batch: Batch,
        embeddings: Mapping[str, tf.Tensor | Indexed],
        dims: Mapping[str, int],
        placement: Placement,
    ):
        """Splits the embeddings by feature.

        Args:
            layout: layout of the batch.
            batch: features.
            embeddings: {group: [n, dim]}, one row for each of `Ranker.keys(batch)`, or `Indexed`.
            dims: embedding dimensions by group.
            placement: devices; sizes of lists are computed on the host, which needs them to start operations.
        """
        self._gathered: dict[str, Gathered] = {}
        self._layout, self._batch, self._dims, self._placement = layout, batch, dims, placement
        self._weights = layout.by_group(batch, "list_weights", layout.weighted)
        self._ids: dict[str, tf.Tensor] = {}
        self._combined: dict[str, tf.Tensor] = {}
        self._encoded: dict[str, Lists] = {}
        self._event_rows: dict[str, tf.Tensor] = {}
        self._events = layout.events(batch)
        for group, of_group in embeddings.items():
            rows_nD = tf.gather(*of_group) if isinstance(of_group, Indexed) else of_group
            self._split(group, rows_nD)
            if isinstance(of_group, Indexed) and not layout.lists(group):
                self._gathered[group] = Gathered(*of_group, len(layout.ids[group]))

    def _split(self, group: str, rows_nD: tf.Tensor) -> None:
        ids, combined = self._layout.ids[group], self._layout.combined(group)
        encoded, of_events = self._layout.encoded[group], self._layout.event_ids[group]
        apart = (*encoded, *of_events)
        with self._placement.host():
            sizes = [size_of(self._batch) * len(ids), tf.constant(0, tf.int64)]
            if combined:
                sizes[1] = tf.reduce_sum(self._layout.lengths(self._batch, combined))
            lengths_RB = self._layout.lengths(self._batch, apart) if apart else None
            if lengths_RB is not None:
                sizes += tf.unstack(tf.reduce_sum(lengths_RB, axis=1))
        parts = tf.split(rows_nD, sizes, num=len(sizes)) if combined or apart else [rows_nD, rows_nD]
        self._ids[group] = tf.reshape(parts[0], [-1, max(len(ids), 1), self._dims[group]])
        self._combined[group] = parts[1]
        lengths = [] if lengths_RB is None else tf.unstack(lengths_RB)
        self._event_rows |= zip(of_events, parts[2 + len(encoded) :], strict=True)
        for name, values_nD, lengths_R in zip(encoded, parts[2:], lengths, strict=False):
            self._encoded[name] = Lists(values_nD, lengths_R, has_own_targets=True)

    def floats(self) -> tf.Tensor:
        """See `EmbeddedRows`."""
        return self._batch["floats"]

    def ids(self, group: str) -> tf.Tensor | Gathered:
        """See `EmbeddedRows`."""
        if group in self._gathered:
            return self._gathered[group]
        return tf.reshape(self._ids[group], [-1, len(self._layout.ids[group]) * self._dims[group]])

    def id(self, group: str, index: int) -> tf.Tensor:
        """See `EmbeddedRows`."""
        return self._ids[group][:, index]

    def lists_to_combine(self, group: str) -> ListsToCombine:
        """See `EmbeddedRows`."""
        lengths_MB = self._layout.lengths(self._batch, self._layout.combined(group))
        lengths = tf.reshape(lengths_MB, [-1])
        return ListsToCombine(self._combined[group], lengths, tf.shape(lengths_MB)[1], self._weights.get(group))

    def list_to_encode(self, group: str, feature: str) -> tuple[Lists, Beside]:
        """See `EmbeddedRows`."""
        del group
        lists = self._encoded[feature]
        if feature in self._layout.timed:
            lists = replace(lists, ages_n=self._events[times_of(feature)])
        rows, amounts = (self._layout.beside(feature, found) for found in (self._event_rows, self._events))
        return lists, Beside(rows, amounts)

    def for_targets(self, lists: Lists) -> Lists:
        """See `EmbeddedRows`."""
        return lists

    def of_targets(self, lists: Lists, num_targets: tf.Tensor) -> Lists:
        """See `EmbeddedRows`."""
        del num_targets
        return lists

    def side_by_side(
        self, group: str, vectors: tf.Tensor, lists_per_feature: tf.Tensor, num_features: int
    ) -> tf.Tensor:
        """See `EmbeddedRows`."""
        del lists_per_feature  # Every feature has a list for each row.
        dim = self._dims[group]
        if num_features == 1:
            return tf.reshape(vectors, [-1, dim])
        vectors_BMD = tf.transpose(tf.reshape(vectors, [num_features, -1, dim]), [1, 0, 2])
        return tf.reshape(vectors_BMD, [-1, num_features * dim])
