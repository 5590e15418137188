"""Layers over lists with candidates: a value sees itself and older ones of its list, a candidate its whole list and
itself, and nothing sees a candidate.

So what is computed of a list is the same for any candidates, once for all of them, and a candidate's result is the same
beside any others (M-FALCON in Zhai et al.: Actions speak louder than words, ICML 2024, section 3.4).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tensorflow as tf

from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.in_parts import AttentionInParts, Weigh
from sangam.trainer_module.encoders.lists import Lists

# Shape suffixes: R lists, n values of all of them, C candidates, m = n + C, D dimension, E width of all heads, H heads.


@dataclass(frozen=True)
class Isolated:
    """Lists, longest first, and their candidates, list after list; rows of tensors are all values, then all candidates.

    Attributes:
        lengths_R: values of each list, int64.
        counts_R: candidates of each list, int64.
        ages_n: seconds from each value's event to the row's time; None without times.
        order_C: position of each candidate among those that were given.
    """

    lengths_R: tf.Tensor
    counts_R: tf.Tensor
    ages_n: tf.Tensor | None
    order_C: tf.Tensor

    @staticmethod
    def of(lists: Lists, target: tf.Tensor) -> tuple["Isolated", tf.Tensor]:
        """Returns the order of lists and targets, and their embeddings in it: [n + C, D]."""
        list_C = lists.of_targets(tf.shape(target)[0])
        order_R = tf.argsort(lists.lengths_R, direction="DESCENDING", stable=True)
        place_C = tf.gather(tf.math.invert_permutation(order_R), list_C)
        order_C = tf.argsort(place_C, stable=True)
        starts_R = tf.gather(tf.cumsum(lists.lengths_R, exclusive=True), order_R)
        lengths_R = tf.gather(lists.lengths_R, order_R)
        order_n = tf.ragged.range(starts_R, starts_R + lengths_R).flat_values
        targets_CD = tf.broadcast_to(target, [tf.size(list_C), target.shape[1]])
        rows_mD = tf.concat([tf.gather(lists.values_nD, order_n), tf.gather(targets_CD, order_C)], 0)
        counts_R = tf.math.unsorted_segment_sum(tf.ones_like(place_C, tf.int64), place_C, tf.size(lengths_R))
        ages_n = None if lists.ages_n is None else tf.gather(lists.ages_n, order_n)
        return Isolated(lengths_R, counts_R, ages_n, order_C), rows_mD

    def candidates(self, rows_m: tf.Tensor) -> tf.Tensor:
        """Returns the candidates' rows."""
        return rows_m[tf.reduce_sum(self.lengths_R) :]

    def sizes(self, *, of_candidates: bool) -> tf.Tensor:
        """Returns 1 + the length of each row's list, of all rows or of the candidates alone: [any, 1]."""
        number_R = tf.cast(self.lengths_R + 1, tf.float32)
        of_candidates_C = tf.repeat(number_R, self.counts_R)
        if of_candidates:
            return of_candidates_C[:, None]
        return tf.concat([tf.repeat(number_R, self.lengths_R), of_candidates_C], 0)[:, None]

    def as_given(self, states_CD: tf.Tensor) -> tf.Tensor:
        """Returns the states of candidates in the order of the targets; zeros of those whose list is empty."""
        lengths_C = tf.repeat(self.lengths_R, self.counts_R)
        found_CD = tf.where(lengths_C[:, None] > 0, states_CD, 0.0)
        return tf.gather(found_CD, tf.math.invert_permutation(self.order_C))

    def tables(self, weights: Weights, layer: str) -> list[tf.Tensor]:
        """Returns a layer's biases of positions, and of ages where there are times: [H, any]."""
        return [weights[f"{layer}/{name}"] for name in ("positions", *([] if self.ages_n is None else ["ages"]))]

    def attended(
        self,
        queries: tf.Tensor,
        keys_values_mE: tf.Tensor,
        tables: Sequence[tf.Tensor],
        weigh: Weigh,
        *,
        of_candidates: bool,
    ) -> tf.Tensor:
        """Returns sums of values, as many as queries: [any, E].

        Args:
            queries: [m, E], or of the candidates alone: [C, E].
            keys_values_mE: keys and values side by side: [m, 2 E].
            tables: of `relative.among_values`, with a row for each head.
            weigh: from logits to weights.
            of_candidates: whether candidates alone attend.
        """
        parts = AttentionInParts(self.lengths_R, self.counts_R, self.ages_n, weigh, of_candidates=of_candidates)

        @tf.custom_gradient
        def attended(queries: tf.Tensor, keys_values: tf.Tensor, *tables: tf.Tensor) -> tuple[tf.Tensor, Any]:
            return parts.forward(queries, keys_values, tables), lambda sums: parts.backward(
                sums, queries, keys_values, tables
            )

        result: tf.Tensor = attended(queries, keys_values_mE, *tables)
        return tf.ensure_shape(result, [None, queries.shape[1]])


class Layer(Protocol):
    """A layer of an encoder."""

    def __call__(self, weights: Weights, x_mD: tf.Tensor, isolated: Isolated, *, is_last: bool) -> tf.Tensor:
        """Returns the states of all rows, [m, D]; of the last layer those of the candidates alone, [C, D]."""


def encoded(weights: Weights, lists: Lists, target: tf.Tensor, layers: Sequence[Layer], dim: int) -> tf.Tensor:
    """Returns the state of each target behind the layers, [C, D]; zeros where its list is empty."""
    # The rows of a served table have no static width.
    values_nD, target = (tf.ensure_shape(rows, [None, dim]) for rows in (lists.values_nD, target))
    isolated, states = Isolated.of(replace(lists, values_nD=values_nD), target)
    for layer in layers:
        states = layer(weights, states, isolated, is_last=layer is layers[-1])
    return isolated.as_given(states)
