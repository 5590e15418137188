"""Batches of transformed examples, as each rank reads them by itself; `pool_input` is the way by a pool."""

from collections.abc import Sequence

import tensorflow as tf

from schemas.spec import Ranker
from trainer_module.batch import parser

_SHUFFLE_SEED = 0x5A17


def records(files: Sequence[str]) -> tf.data.Dataset:
    """Returns the serialized examples of TFRecord files, in the order of the files."""
    return tf.data.TFRecordDataset(list(files), compression_type=compression(files))


def own_batches(
    declared: Ranker, files: Sequence[str], *, epoch: int, rank: int, ranks: int, skip: int = 0
) -> tf.data.Dataset:
    """Returns one epoch without a pool: every rank reads all files and keeps its rows of each global batch.

    The examples come in the same order whatever the number of ranks, batch_size_per_rank * ranks in a global batch.

    Args:
        declared: of the model; says batch size, shuffle buffer and seed.
        files: of transformed examples.
        epoch: from 0; epochs are shuffled differently.
        rank: of this process.
        ranks: number of them.
        skip: examples of this epoch that have been trained on.
    """
    training = declared.training
    dataset = records(sorted(files))
    if training.shuffle_buffer > 1:
        dataset = dataset.shuffle(training.shuffle_buffer, seed=shuffle_seed(declared, epoch))
    dataset = dataset.skip(skip).batch(training.batch_size_per_rank * ranks)

    def rows_of_rank(batch: tf.Tensor) -> tf.Tensor:
        size = tf.size(batch)
        return batch[rank * size // ranks : (rank + 1) * size // ranks]

    return dataset.map(rows_of_rank).map(parser(declared)).prefetch(2)


def shuffle_seed(declared: Ranker, epoch: int) -> int:
    """Returns the seed of an epoch's order."""
    return _SHUFFLE_SEED + declared.training.seed + epoch


def compression(files: Sequence[str]) -> str:
    """Returns the compression of files that all have the same."""
    return "GZIP" if files[0].endswith(".gz") else ""
