"""Batches that each rank reads by itself; `service_reader` reads from a pool."""

from collections.abc import Iterable, Sequence

import tensorflow as tf

from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.training import Order
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.example_reader import ExampleReader, transformed_reader
from sangam.trainer_module.input.order import files_of_rank, order_of, shuffle_seed, sweeps_of, whole
from sangam.trainer_module.input.part_reader import PartReader, Parts, parts_as_tensors, traced_once


def own_batches(
    spec: RankerSpec,
    files: Sequence[str],
    *,
    epoch: int,
    rank: int,
    ranks: int,
    skip: int = 0,
    reader: ExampleReader | None = None,
) -> tf.data.Dataset:
    """Returns one epoch without a pool: every rank reads all files and keeps its rows of each global batch.

    The examples come in the same order for any number of ranks, batch_size_per_rank * ranks in a global batch.

    Args:
        spec: batch size, order, shuffle buffer and seed.
        files: files of examples.
        epoch: number of the epoch, from 0; each has its own order.
        rank: rank of this process.
        ranks: number of ranks.
        skip: examples of this epoch already trained on.
        reader: reader of the files; None: Transform's examples.
    """
    reader = reader or transformed_reader(spec)
    order, seed = order_of(spec, files), shuffle_seed(spec, epoch)
    training = spec.training
    parts = parts_as_tensors([whole(files, order, seed, sweeps_of(spec, epoch))], seed)
    batch_size = training.batch_size_per_rank * ranks
    skipped = tf.constant(skip, tf.int64)
    return _batches(reader, parts, order, training.shuffle_buffer, batch_size, rank, ranks, skipped).prefetch(2)


def validation_batches(
    spec: RankerSpec, files: Sequence[str], *, rank: int, ranks: int, reader: ExampleReader | None = None
) -> tf.data.Dataset:
    """Returns a rank's share of the examples without a pool; it opens only the files it needs.

    See `own_batches` for the arguments.
    """
    reader = reader or transformed_reader(spec)
    parts = parts_as_tensors([(files_of_rank(files, rank, ranks),)], seed=0)
    none = tf.constant(0, tf.int64)
    return _batches(reader, parts, "time", 1, spec.training.batch_size_per_rank, 0, 1, none).prefetch(2)


def evenly(batches: Iterable[Batch], most: int) -> list[Batch]:
    """Returns at most so many batches, and at least half as many where there are enough, from all over."""
    kept, every = list[Batch](), 1
    for number, batch in enumerate(batches):
        if number % every == 0:
            kept.append(batch)
        if len(kept) > most:
            kept, every = kept[::2], 2 * every
    return kept


def batches_of_file(reader: ExampleReader, file: str, batch_size: int, *, rank: int, ranks: int) -> Sequence[Batch]:
    """Returns the examples of one small file in their order: a rank's rows of each global batch.

    Without tf.data, which would prepare its graph again for each file, in half a second of a core.

    Args:
        reader: reader of the file.
        file: file of examples.
        batch_size: rows of a batch of all ranks.
        rank: rank of this process.
        ranks: number of ranks.
    """
    rows, count = reader.rows_of(tf.constant(list(tf.compat.v1.io.tf_record_iterator(file)), tf.string))
    batches = []
    for first in range(0, int(count), batch_size):
        size = min(batch_size, int(count) - first)
        start, end = first + rank * size // ranks, first + (rank + 1) * size // ranks
        batches.append(reader.batch_from(rows, tf.constant(start, tf.int64), tf.constant(end, tf.int64)))
    return batches


@traced_once
def _batches(
    reader: ExampleReader,
    parts: Parts,
    order: Order,
    shuffle_buffer: int,
    batch_size: int,
    rank: int,
    ranks: int,
    skip: tf.Tensor,
) -> tf.data.Dataset:
    # Whole batches stay as they are: an epoch has the same ones whatever the number of ranks.
    count_ids = reader.count_ids if ranks > 1 else None
    read = PartReader(reader.table, parts, order, shuffle_buffer, reader.keep, count_ids)
    rows = read.batches(tf.constant(0), batch_size, rank=rank, ranks=ranks, skip=skip)
    return rows.map(reader.batch_of)
