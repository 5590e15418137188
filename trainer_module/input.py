"""Batches of transformed examples, as each rank reads them by itself; `pool_input` is the way by a pool."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from schemas.columns import EVENT_TIME
from schemas.features import IdFeature, NumericFeature
from schemas.spec import Ranker
from trainer_module.ranker import Batch

_SHUFFLE_SEED = 0x5A17


def example_spec(declared: Ranker) -> dict[str, object]:
    """Returns how to parse transformed tf.Examples."""
    spec: dict[str, object] = {}
    for name, feature in declared.features.items():
        match feature:
            case NumericFeature():
                spec[name] = tf.io.FixedLenFeature([], tf.float32)
            case IdFeature():
                spec[name] = tf.io.FixedLenFeature([], tf.int64)
            case _:
                spec[name] = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    if declared.event_time:
        spec[EVENT_TIME] = tf.io.FixedLenFeature([], tf.int64)
    return spec | {task: tf.io.FixedLenFeature([], tf.float32) for task in declared.tasks}


def batch_spec(declared: Ranker) -> dict[str, tf.TypeSpec]:
    """Returns the tensors of a batch, for input signatures: their number of rows is never traced."""
    return {
        name: tf.RaggedTensorSpec([None, None], tf.int64, 1, tf.int64)
        if isinstance(parse, tf.io.RaggedFeature)
        else tf.TensorSpec([None], parse.dtype)  # type: ignore[attr-defined]
        for name, parse in example_spec(declared).items()
    }


def empty_batch(declared: Ranker) -> Batch:
    """Returns a batch of no examples: what a rank contributes when it has run out of data before others."""
    none = tf.zeros([0], tf.string)
    return tf.io.parse_example(none, example_spec(declared))


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


def parser(declared: Ranker) -> Callable[[tf.Tensor], Batch]:
    """Returns what turns serialized examples [batch] into a batch."""
    spec = example_spec(declared)
    return lambda serialized: tf.io.parse_example(serialized, spec)
