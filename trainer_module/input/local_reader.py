"""Batches of transformed examples that each rank reads by itself; `service_reader` reads from a pool."""

from collections.abc import Sequence

import tensorflow as tf

from schemas.spec import RankerSpec
from schemas.spec.training import Order
from trainer_module.input.batch import parser
from trainer_module.input.order import Part, files_of_rank, order_of, shuffle_seed, whole

_DAY_SEEDS = 1_000_003
_FILES_IN_TURN = 8


def records(files: Sequence[str]) -> tf.data.Dataset:
    """Returns the serialized examples of TFRecord files, in the order of the files."""
    return tf.data.TFRecordDataset(list(files), compression_type=compression(files))


def own_batches(
    spec: RankerSpec, files: Sequence[str], *, epoch: int, rank: int, ranks: int, skip: int = 0
) -> tf.data.Dataset:
    """Returns one epoch without a pool: every rank reads all files and keeps its rows of each global batch.

    The examples come in the same order whatever the number of ranks, batch_size_per_rank * ranks in a global batch.

    Args:
        spec: batch size, order, shuffle buffer and seed.
        files: of transformed examples.
        epoch: from 0; epochs are shuffled differently.
        rank: of this process.
        ranks: number of ranks.
        skip: examples of this epoch already trained on.
    """
    order, seed = order_of(spec, files), shuffle_seed(spec, epoch)
    read = Records([whole(files, order, seed)], order, spec.training.shuffle_buffer, seed)
    dataset = read.of(tf.constant(0)).skip(skip).batch(spec.training.batch_size_per_rank * ranks)

    def rows_of_rank(batch: tf.Tensor) -> tf.Tensor:
        size = tf.size(batch)
        return batch[rank * size // ranks : (rank + 1) * size // ranks]

    return dataset.map(rows_of_rank).map(parser(spec)).prefetch(2)


def validation_batches(spec: RankerSpec, files: Sequence[str], *, rank: int, ranks: int) -> tf.data.Dataset:
    """Returns a rank's share of the examples without a pool; it opens only the files it needs."""
    read = Records([(files_of_rank(files, rank, ranks),)], "time", 1, seed=0)
    batches = read.of(tf.constant(0)).batch(spec.training.batch_size_per_rank)
    return batches.map(parser(spec)).prefetch(2)


class Records:
    """The serialized examples of parts, each a function of its number.

    Attributes:
        num_parts: parts are numbered from 0.
    """

    def __init__(self, parts: Sequence[Part], order: Order, shuffle_buffer: int, seed: int):
        """Holds the parts as tensors: the graph is the same for any number of parts and days."""
        self.num_parts = len(parts)
        segments = [segment for part in parts for segment in part]
        self._files = tf.ragged.constant([segment.files for segment in segments], tf.string, ragged_rank=1)
        self._shares = tf.constant([segment.shares for segment in segments], tf.int64)
        self._share = tf.constant([segment.share for segment in segments], tf.int64)
        self._ends = tf.cumsum(tf.constant([len(part) for part in parts], tf.int64))
        self._sizes = tf.constant([len(part) for part in parts], tf.int64)
        self._kind = compression(segments[0].files)
        self._order, self._buffer, self._seed = order, shuffle_buffer, seed

    def of(self, part: tf.Tensor) -> tf.data.Dataset:
        """Returns the serialized examples of a part."""
        end = self._ends[part]
        return tf.data.Dataset.range(end - self._sizes[part], end).flat_map(self._of_segment)

    def _of_segment(self, segment: tf.Tensor) -> tf.data.Dataset:
        if self._order == "time":
            dataset = tf.data.TFRecordDataset(self._files[segment], compression_type=self._kind)
        else:
            dataset = tf.data.Dataset.from_tensor_slices(self._files[segment]).interleave(
                lambda file: tf.data.TFRecordDataset(file, compression_type=self._kind),
                cycle_length=_FILES_IN_TURN,
                block_length=1,
            )
        dataset = dataset.shard(self._shares[segment], self._share[segment])
        if self._order == "time":
            return dataset
        seed = segment * _DAY_SEEDS + self._seed
        # With reshuffling, a part's order would depend on how many parts its worker has read before.
        return dataset.shuffle(self._buffer, seed=seed, reshuffle_each_iteration=False)


def compression(files: Sequence[str]) -> str:
    """Returns the files' common compression."""
    return "GZIP" if files[0].endswith(".gz") else ""
