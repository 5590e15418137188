"""Batches of transformed examples: from files, by way of a tf.data service pool or read by each rank itself."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from schemas.features import IdFeature, NumericFeature
from schemas.spec import Ranker
from trainer_module.ranker import Batch

_SHUFFLE_SEED = 0x5A17
_PARTS_PER_WORKER = 4


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
    return tf.data.TFRecordDataset(list(files), compression_type=_compression(files))


def served_batches(declared: Ranker, files: Sequence[str], *, epoch: int, service: str) -> tf.data.Dataset:
    """Returns one epoch from a tf.data service pool: every example goes to exactly one of the ranks.

    Args:
        declared: of the model; says batch size, shuffle buffer and seed.
        files: of transformed examples.
        epoch: from 0; epochs are shuffled differently.
        service: host:port of the dispatcher.
    """
    seed = _SHUFFLE_SEED + declared.training.seed + epoch
    # The pool hands out elements of this first dataset to its workers. A part is every k-th record of a file, so that
    # even one file feeds all workers; reading is cheap beside parsing.
    parts = -(-_PARTS_PER_WORKER * declared.cluster.data_workers // len(files))
    pairs = [(file, part) for file in sorted(files) for part in range(parts)]
    names, numbers = (list(column) for column in zip(*pairs, strict=True))
    dataset = tf.data.Dataset.from_tensor_slices((names, tf.constant(numbers, tf.int64)))
    dataset = dataset.shuffle(len(pairs), seed=seed)
    dataset = dataset.flat_map(
        lambda file, part: tf.data.TFRecordDataset(file, compression_type=_compression(files)).shard(parts, part)
    )
    dataset = dataset.shuffle(declared.training.shuffle_buffer, seed=seed)
    dataset = dataset.batch(declared.training.batch_size_per_rank).map(_parser(declared))
    return dataset.apply(
        tf.data.experimental.service.distribute(
            processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
            service=f"grpc://{service}",
            job_name=f"train-epoch-{epoch}",
        )
    ).prefetch(2)


def own_batches(declared: Ranker, files: Sequence[str], *, epoch: int, rank: int, ranks: int) -> tf.data.Dataset:
    """Returns one epoch without a pool: every rank reads all files and keeps its rows of each global batch.

    The global batches are the same whatever the number of ranks: batch_size_per_rank * ranks examples each.
    """
    training = declared.training
    dataset = records(sorted(files))
    if training.shuffle_buffer > 1:
        dataset = dataset.shuffle(training.shuffle_buffer, seed=_SHUFFLE_SEED + training.seed + epoch)
    dataset = dataset.batch(training.batch_size_per_rank * ranks)

    def rows_of_rank(batch: tf.Tensor) -> tf.Tensor:
        size = tf.size(batch)
        return batch[rank * size // ranks : (rank + 1) * size // ranks]

    return dataset.map(rows_of_rank).map(_parser(declared)).prefetch(2)


def _compression(files: Sequence[str]) -> str:
    return "GZIP" if files[0].endswith(".gz") else ""


def _parser(declared: Ranker) -> Callable[[tf.Tensor], Batch]:
    spec = example_spec(declared)
    return lambda serialized: tf.io.parse_example(serialized, spec)
