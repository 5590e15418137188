"""Attention over padded lists and candidates, some lists at a time, longest first; backward computes them again.

Memory follows the longest list, not the number of lists times its square, and a batch's short lists have no padding of
its longest one's.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sangam.schemas.derived.histories import MOST_FLOATS_AT_A_TIME
from sangam.trainer_module.encoders.relative import HIDDEN, among_values, of_candidates

_ELEMENTS = MOST_FLOATS_AT_A_TIME
_BLOCKS = 4
"""Blocks of values that attend: the newest block to all values, the oldest to itself alone, 5/8 of all pairs."""

# Shape suffixes: R lists, n values of all of them, C candidates, m = n + C, E width of all heads, H heads, K width of
# one; in a part of the lists r lists, x values, c candidates, L longest list, Q most candidates or L.


Weigh = Callable[[tf.Tensor], tf.Tensor]
"""From logits [H, r, Q, any] to weights; 0 from `HIDDEN`."""


def by_silu(logits: tf.Tensor) -> tf.Tensor:
    """See `Weigh`: silu(z)."""
    return logits * tf.sigmoid(logits)


class _Runs:
    """Runs of rows, one after another, and the same padded."""

    def __init__(self, lengths_r: tf.Tensor, longest: tf.Tensor):
        position_Q = tf.range(longest)
        self.is_there_rQ = position_Q < lengths_r[:, None]
        index_rQ = tf.cumsum(lengths_r, exclusive=True)[:, None] + position_Q
        self._index_rQ = tf.where(self.is_there_rQ, index_rQ, tf.reduce_sum(lengths_r))

    def padded(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns [r, Q, ...], with zeros where no row is."""
        return tf.gather(tf.pad(rows, [[0, 1], *[[0, 0]] * (rows.shape.rank - 1)]), self._index_rQ)

    def heads(self, rows_E: tf.Tensor, num_heads: int, parts: int) -> list[tf.Tensor]:
        """Returns each of so many matrices side by side as [H, r, Q, K]."""
        r, longest = tf.unstack(tf.shape(self.is_there_rQ))
        width = int(rows_E.shape[1]) // (num_heads * parts)
        padded = tf.reshape(self.padded(rows_E), tf.stack([r, longest, parts, num_heads, width]))
        return tf.unstack(tf.transpose(padded, [2, 3, 0, 1, 4]), parts)

    def rows(self, padded_HrQK: tf.Tensor) -> tf.Tensor:
        """Returns what is not padding, the heads side by side: [any, E]."""
        joined = tf.boolean_mask(tf.transpose(padded_HrQK, [1, 2, 0, 3]), self.is_there_rQ)
        return tf.reshape(joined, [-1, padded_HrQK.shape[0] * padded_HrQK.shape[3]])


class _Part(NamedTuple):
    """Some of the lists: the ranges of their values and candidates among all of each."""

    lengths_r: tf.Tensor
    counts_r: tf.Tensor
    values: slice
    candidates: slice


class AttentionInParts:
    """See `Isolated.attended`."""

    def __init__(
        self, lengths_R: tf.Tensor, counts_R: tf.Tensor, ages_n: tf.Tensor | None, weigh: Weigh, *, of_candidates: bool
    ):
        self._lengths_R, self._counts_R, self._ages_n = lengths_R, counts_R, ages_n
        self._weigh, self._of_candidates = weigh, of_candidates
        self._num_values = tf.reduce_sum(lengths_R)
        self._most = tf.reduce_max(tf.concat([counts_R, [1]], 0))

    def forward(self, queries: tf.Tensor, keys_values: tf.Tensor, tables: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the sums of all queries."""

        def of_part(part: _Part) -> list[tf.Tensor]:
            return self._sums(part, self._taken(part, queries, keys_values), tables)

        width = int(queries.shape[1])
        found, _ = self._loop(of_part, [width] * (1 if self._of_candidates else 2), [], tables)
        return tf.concat(found, 0)

    def backward(
        self, sums: tf.Tensor, queries: tf.Tensor, keys_values: tf.Tensor, tables: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Returns the gradients of queries, of keys and values, and of each table, given that of the sums."""

        def of_part(part: _Part) -> list[tf.Tensor]:
            taken = self._taken(part, queries, keys_values)
            with tf.GradientTape() as tape:
                tape.watch([taken, tables])
                found = self._sums(part, taken, tables)
            return list(tape.gradient(found, [*taken, *tables], self._of_queries(part, sums)))

        num = 1 if self._of_candidates else 2
        widths = [int(queries.shape[1])] * num + [int(keys_values.shape[1])] * 2
        found, of_tables = self._loop(of_part, widths, [tf.zeros_like(table) for table in tables], tables)
        return [tf.concat(found[:num], 0), tf.concat(found[num:], 0), *of_tables]

    def _taken(self, part: _Part, queries: tf.Tensor, keys_values: tf.Tensor) -> list[tf.Tensor]:
        """Returns queries, then keys and values of a part: of its values, if they attend, and of its candidates."""
        return [*self._of_queries(part, queries), *self._of_rows(part, keys_values)]

    def _of_queries(self, part: _Part, rows: tf.Tensor) -> list[tf.Tensor]:
        return [rows[part.candidates]] if self._of_candidates else self._of_rows(part, rows)

    def _of_rows(self, part: _Part, rows_m: tf.Tensor) -> list[tf.Tensor]:
        return [rows_m[part.values], rows_m[self._num_values :][part.candidates]]

    def _sums(self, part: _Part, taken: Sequence[tf.Tensor], tables: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the sums of a part's values, if they attend, and of its candidates."""
        *of_values, queries_c, keys_values_x, keys_values_c = taken
        num_heads = int(tables[0].shape[0])
        length = tf.maximum(tf.reduce_max(tf.concat([part.lengths_r, [0]], 0)), 1)
        lists, candidates = _Runs(part.lengths_r, length), _Runs(part.counts_r, self._most)
        ages_rL = None if self._ages_n is None else lists.padded(self._ages_n[part.values])
        keys, values = lists.heads(keys_values_x, num_heads, 2)
        hidden_rL = tf.where(lists.is_there_rQ, 0.0, HIDDEN)
        sums = []
        if of_values:
            [queries] = lists.heads(of_values[0], num_heads, 1)
            keys_and_hidden = with_column(keys, hidden_rL)
            sums.append(lists.rows(self._of_values(queries, keys_and_hidden, values, tables, ages_rL)))
        [queries] = candidates.heads(queries_c, num_heads, 1)
        own_keys, own_values = candidates.heads(keys_values_c, num_heads, 2)
        keys_and_biases = with_column(keys, of_candidates(tables, ages_rL, length) + hidden_rL)
        logits = tf.matmul(with_column(queries, tf.constant(1.0)), keys_and_biases, transpose_b=True)
        own = tf.reduce_sum(queries * own_keys, -1, keepdims=True)
        # A candidate is as far from itself as a value is.
        own += tf.add_n([table[:, :1] for table in tables])[:, None, None]
        weights = self._weigh(tf.concat([logits, own], -1))
        sums.append(candidates.rows(tf.matmul(weights[..., :-1], values) + weights[..., -1][..., None] * own_values))
        return sums

    def _of_values(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        tables: Sequence[tf.Tensor],
        ages_rL: tf.Tensor | None,
    ) -> tf.Tensor:
        """Returns the sums of values: [H, r, L, K]. The last column of the keys is added to logits."""
        queries, length = with_column(queries, tf.constant(1.0)), tf.shape(keys)[2]
        found = []
        for block in range(_BLOCKS):
            start, end = length * block // _BLOCKS, length * (block + 1) // _BLOCKS
            ages = None if ages_rL is None else ages_rL[:, start:]
            bias = among_values(tables, end - start, ages, length - start)
            logits = tf.matmul(queries[:, :, start:end], keys[:, :, start:], transpose_b=True) + bias
            found.append(tf.matmul(self._weigh(logits), values[:, :, start:]))
        return tf.concat(found, 2)

    def _loop(
        self,
        of_part: Callable[[_Part], list[tf.Tensor]],
        widths: Sequence[int],
        totals: list[tf.Tensor],
        tables: Sequence[tf.Tensor],
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Returns rows of all parts one behind the other, and sums over the parts of what follows them."""
        lengths_R, counts_R = self._lengths_R, self._counts_R
        ends = [tf.concat([[0], tf.cumsum(each)], 0) for each in (lengths_R, counts_R)]
        num_lists, num_heads, width = tf.size(lengths_R), int(tables[0].shape[0]), max(widths)
        longest = tf.concat([lengths_R, [0]], 0)
        rows = [
            tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False, element_shape=[None, width])
            for width in widths
        ]

        def step(number: tf.Tensor, start: tf.Tensor, rows: Any, totals: Any) -> Any:
            length = tf.maximum(longest[start], 1)
            attending = self._most if self._of_candidates else self._most + length
            of_list = length * (attending * num_heads + width)
            end = tf.minimum(start + tf.cast(tf.maximum(_ELEMENTS // of_list, 1), tf.int32), num_lists)
            values, candidates = (slice(each[start], each[end]) for each in ends)
            found = of_part(_Part(lengths_R[start:end], counts_R[start:end], values, candidates))
            written = [array.write(number, each) for array, each in zip(rows, found, strict=False)]
            added = [total + more for total, more in zip(totals, found[len(rows) :], strict=True)]
            return number + 1, end, written, added

        _, _, rows, totals = tf.while_loop(
            # Of no lists there is one part too.
            lambda number, start, rows, totals: (number == 0) | (start < num_lists),
            step,
            (tf.constant(0), tf.constant(0), rows, totals),
            parallel_iterations=1,
        )
        return [array.concat() for array in rows], totals


def with_column(matrices_HrLK: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
    """Returns [H, r, L, K + 1], given a column that broadcasts to [H, r, L]: a product adds it without another pass."""
    columns = tf.broadcast_to(column, tf.shape(matrices_HrLK)[:-1])[..., None]
    return tf.concat([matrices_HrLK, columns], -1)
