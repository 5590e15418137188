"""Reads parts of the examples: blocks of several files in turn, their rows shuffled within windows, in batches."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sangam.schemas.contracts.example_files import BLOCK_ROWS
from sangam.schemas.spec.training import Order
from sangam.trainer_module.input.blocks import Rows, Table, num_rows
from sangam.trainer_module.input.dealing import dealt
from sangam.trainer_module.input.ending import untuned
from sangam.trainer_module.input.order import Part

_DAY_SEEDS = 1_000_003
_FILES_IN_TURN = 8


def traced_once(batches: Callable[..., tf.data.Dataset]) -> Callable[..., tf.data.Dataset]:
    """Makes the graph of a dataset once for all epochs, of which only tensors differ.

    Without autograph, which would take seconds, and which nothing here needs; untuned.
    """

    def traced(*args: Any) -> tf.data.Dataset:
        return untuned(batches(*args))

    once: Callable[..., tf.data.Dataset] = tf.function(
        tf.autograph.experimental.do_not_convert(traced), autograph=False
    )
    return once


class Parts(NamedTuple):
    """The parts of an epoch as tensors: one graph serves any files, days and epochs.

    Attributes:
        files: files of each segment, part after part.
        shares: number of shares of the blocks of a segment's files.
        share: the segment's own share.
        ends: end of each part's segments.
        sizes: sizes of the parts, in segments.
        seed: seed of the windows' orders.
    """

    files: tf.RaggedTensor
    shares: tf.Tensor
    share: tf.Tensor
    ends: tf.Tensor
    sizes: tf.Tensor
    seed: tf.Tensor


def parts_as_tensors(parts: Sequence[Part], seed: int) -> Parts:
    """Returns parts, numbered from 0."""
    segments = [segment for part in parts for segment in part]
    sizes = tf.constant([len(part) for part in parts], tf.int64)
    return Parts(
        files=tf.ragged.constant([segment.files for segment in segments], tf.string, ragged_rank=1),
        shares=tf.constant([segment.shares for segment in segments], tf.int64),
        share=tf.constant([segment.share for segment in segments], tf.int64),
        ends=tf.cumsum(sizes),
        sizes=sizes,
        seed=tf.constant(seed, tf.int64),
    )


class PartReader:
    """Batches of the rows of parts, each part a function of its number."""

    def __init__(
        self,
        table: Table,
        parts: Parts,
        order: Order,
        shuffle_buffer: int,
        keep: Callable[[Rows], tf.Tensor] | None = None,
        count_ids: Callable[[Rows], tf.Tensor] | None = None,
    ):
        """Takes the parts to read.

        Args:
            table: the columns to read.
            parts: parts of the examples.
            order: order of their rows; `time` keeps the order of the files.
            shuffle_buffer: rows of a window, rounded up to whole blocks.
            keep: says which rows take part: [n] bool; None: all.
            count_ids: returns each row's number of ids: [n]; None: rows are not dealt by it.
        """
        self._table, self._parts, self._order, self._keep = table, parts, order, keep
        self._count_ids = count_ids
        self._blocks_of_window = -(-shuffle_buffer // BLOCK_ROWS)

    def batches(
        self, part: tf.Tensor, batch_size: int, *, rank: int = 0, ranks: int = 1, skip: tf.Tensor | int = 0
    ) -> tf.data.Dataset:
        """Returns the rows of a part in batches; only the last one may have fewer rows.

        With `count_ids` the ranks' shares of a batch have about equally many ids, whatever the order. For a rank that
        takes whole batches these have, within a window, as other ranks take others meanwhile; in the order of time they
        keep their rows.

        Args:
            part: number of the part.
            batch_size: rows of a batch of all ranks.
            rank: rank that takes its share of each batch.
            ranks: number of ranks that share each batch.
            skip: first rows to leave out.
        """
        end = self._parts.ends[part]
        windows = tf.data.Dataset.range(end - self._parts.sizes[part], end).flat_map(self._windows)
        no_rows = (self._table.empty(), tf.zeros([0], tf.int64), True)
        windows = windows.concatenate(tf.data.Dataset.from_tensors(no_rows))

        def cut(state: tuple[Rows, tf.Tensor], window: tuple[Rows, tf.Tensor, tf.Tensor]) -> tuple[Any, Any]:
            """Adds the rows that the last batch left to a window; leaves those of the next batch, if it needs more."""
            (left, to_skip), (rows, order, is_end) = state, window
            total = num_rows(left) + tf.size(order, tf.int64)
            start = tf.minimum(to_skip, total)
            end = tf.where(is_end, total, start + (total - start) // batch_size * batch_size)
            order = tf.concat([tf.range(num_rows(left)), num_rows(left) + order], 0)
            if self._count_ids is not None and (ranks > 1 or self._order != "time"):
                ids = tf.gather(tf.concat([self._count_ids(left), self._count_ids(rows)], 0), order)
                if ranks > 1:
                    dealing = _dealing(ids, start, (end - start) // batch_size, batch_size, ranks)
                else:
                    # A batch with rows of the window before stays as it is: they may be of another day.
                    first = tf.minimum(start + tf.cast(num_rows(left) > 0, tf.int64) * batch_size, end)
                    batches = (end - first) // batch_size
                    dealing = _dealing(ids, first, 1, batches * batch_size, batches)
                order = tf.gather(order, dealing)
            joined = self._table.join(left, rows, order)
            return (self._table.take(joined, end, total), to_skip - start), (joined, start, end)

        def batches_of(joined: Any, start: tf.Tensor, end: tf.Tensor) -> tf.data.Dataset:
            def rows_of_rank(first: tf.Tensor) -> Rows:
                size = tf.minimum(end - first, batch_size)
                return self._table.take(joined, first + rank * size // ranks, first + (rank + 1) * size // ranks)

            return tf.data.Dataset.range(start, end, batch_size).map(rows_of_rank)

        state = (self._table.empty(), tf.cast(skip, tf.int64))
        return windows.scan(state, cut).flat_map(batches_of)

    def _windows(self, segment: tf.Tensor) -> tf.data.Dataset:
        """Returns (rows, their order, False) of a segment's windows."""
        files = self._parts.files[segment]
        if self._order == "time":
            blocks = tf.data.TFRecordDataset(files)
        else:
            blocks = tf.data.Dataset.from_tensor_slices(files).interleave(
                tf.data.TFRecordDataset, cycle_length=_FILES_IN_TURN, block_length=1
            )
        windows = (
            blocks.shard(self._parts.shares[segment], self._parts.share[segment])
            .batch(self._blocks_of_window)
            .enumerate()
        )

        def window(number: tf.Tensor, blocks_W: tf.Tensor) -> tuple[Rows, tf.Tensor, bool]:
            rows = self._table.decode(blocks_W)
            order = tf.range(num_rows(rows))
            if self._keep is not None:
                order = tf.boolean_mask(order, self._keep(rows))
            if self._order != "time":
                # A function of the numbers alone: a worker that takes another's place reads the same windows.
                seed = tf.stack([segment * _DAY_SEEDS + self._parts.seed, number])
                order = tf.random.experimental.stateless_shuffle(order, seed)
            return rows, order, False

        return windows.map(window)


def _dealing(ids: tf.Tensor, first: tf.Tensor, groups: Any, size: Any, parts: Any) -> tf.Tensor:
    """Returns the order of rows in which `groups` of `size` rows from `first` on are dealt to parts, and no others."""
    groups, size = tf.cast(groups, tf.int64), tf.cast(size, tf.int64)
    end, total = first + groups * size, tf.size(ids, tf.int64)
    order_GN = dealt(tf.reshape(ids[first:end], tf.stack([groups, size])), parts)
    moved = first + tf.range(groups)[:, None] * size + order_GN
    return tf.concat([tf.range(first), tf.reshape(moved, [-1]), tf.range(end, total)], 0)
