"""Batches from a tf.data service pool, each with a name, so that an interrupted epoch can be continued.

The pool's workers take parts of the files as they become free, and give batches to whichever rank asks. A part is the
same stream in every run, and a batch is named by its part and its number in it: the names of the batches trained on are
the position.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.data.experimental.ops import data_service_ops  # The public `distribute` lacks one argument.

from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.training import Order
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.blocks import Rows, num_rows
from sangam.trainer_module.input.ending import Begun
from sangam.trainer_module.input.example_reader import ExampleReader
from sangam.trainer_module.input.order import Part, order_of, parts_of_pool, shuffle_seed, sweeps_of
from sangam.trainer_module.input.part_reader import PartReader, Parts, parts_as_tensors, traced_once
from sangam.trainer_module.input.service_watch import ServiceWatch

_ASK_EVERY_MS = 100
"""Interval of a rank's questions to the dispatcher. By default a second, which would be lost at an epoch's end."""


class LostBatchesError(RuntimeError):
    """The pool did not deliver each batch of an epoch exactly once, after repeated requests; a later attempt may."""


@dataclass(frozen=True)
class PoolParts:
    """The parts that a pool reads in an epoch.

    Attributes:
        parts: parts in the order of reading.
        order: order of their rows.
        shuffle_buffer: rows that are shuffled at a time.
        seed: seed of the epoch.
    """

    parts: tuple[Part, ...]
    order: Order
    shuffle_buffer: int
    seed: int


def training_parts(spec: RankerSpec, files: Sequence[str], epoch: int) -> PoolParts:
    """Returns the parts that the pool reads in an epoch of training."""
    order, seed = order_of(spec, files), shuffle_seed(spec, epoch)
    parts = parts_of_pool(files, order, seed, spec.cluster.data_workers, sweeps_of(spec, epoch))
    return PoolParts(parts, order, spec.training.shuffle_buffer, seed)


def validation_parts(spec: RankerSpec, files: Sequence[str]) -> PoolParts:
    """Returns the parts that the pool reads for validation: all examples, in the order of the files."""
    return PoolParts(parts_of_pool(files, "shuffled", 0, spec.cluster.data_workers), "time", 1, seed=0)


class PoolEpoch:
    """One rank's batches of an epoch, and the names of its trained batches.

    Attributes:
        num_parts: number of parts that the pool reads.
    """

    def __init__(
        self,
        reader: ExampleReader,
        read: PoolParts,
        batch_size: int,
        *,
        service: str,
        name: str,
        trained: NDArray[Any],
        watch: ServiceWatch | None = None,
    ):
        """Begins an epoch, or continues it; the pool begins at once.

        Args:
            reader: reader of the files.
            read: parts to read.
            batch_size: examples of a rank's batch.
            service: host:port of the dispatcher.
            name: name of the request, equal on all ranks; unique over all attempts at the job.
            trained: [n, 2] int64, the batches (part, number in part) that all ranks have trained on before.
            watch: over the service; None: waiting for it has no end.
        """
        self._waiting: Callable[[], AbstractContextManager[None]] = watch.waiting if watch else nullcontext
        self._dataset_of = functools.partial(_served_batches, reader, read, batch_size, service=service)
        self._name = name
        with self._waiting():
            self._elements = Begun(self._dataset_of(name=name, trained=trained))
        self.num_parts = len(read.parts)
        self._taken: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        self._steps = self._passes = 0

    def __iter__(self) -> Iterator[Batch]:
        for part, number, batch in self._awaited(self._elements):
            if number < 0:
                self._ends.append((int(part), ~int(number)))
                continue
            self._taken.append((int(part), int(number)))
            yield batch

    def _awaited(self, elements: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self._waiting():
                element = next(elements, None)
            if element is None:
                return
            yield element

    def stepped(self) -> None:
        """Counts a step: on the next batch taken, or on none if none was left."""
        self._steps += 1

    def ask_again(self, broken: NDArray[Any], came: NDArray[Any]) -> None:
        """Makes the next iteration deliver the missing batches; all ranks call it, after training on the received ones.

        Args:
            broken: incomplete parts.
            came: batches of these parts that some rank has received, in this attempt or before: [n, 2].
        """
        self._passes += 1
        self._steps = len(self._taken)
        self._ends = [(part, size) for part, size in self._ends if part not in broken]
        name = f"{self._name}-again-{self._passes}"
        with self._waiting():
            self._elements = Begun(self._dataset_of(name=name, trained=came, only=broken))

    @property
    def taken(self) -> NDArray[Any]:
        """The batches that this rank has received: [n, 2] int64."""
        return np.array(self._taken, np.int64).reshape(-1, 2)

    def delivered(self, before: NDArray[Any]) -> NDArray[np.int64]:
        """Returns batches delivered, ends delivered, and batches that the ends announce, by part: [3, parts].

        Args:
            before: [n, 2], batches trained on before, which count as delivered.
        """
        counts = np.zeros([3, self.num_parts], np.int64)
        np.add.at(counts[0], [part for part, _ in self._taken], 1)
        np.add.at(counts[0], before[:, 0], 1)
        for part, size in self._ends:
            counts[1:, part] += (1, size)
        return counts

    def trained(self) -> NDArray[Any]:
        """Returns the batches that this rank has trained on since it began or continued the epoch: [n, 2] int64."""
        # Batches fetched ahead of their step do not count.
        return np.array(self._taken[: self._steps], np.int64).reshape(-1, 2)


def broken_parts(delivered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the incomplete parts of an epoch.

    Args:
        delivered: `PoolEpoch.delivered`, summed over the ranks.

    Raises:
        LostBatchesError: a batch came twice.
    """
    came, ends, sizes = delivered
    twice = np.flatnonzero((ends > 1) | ((ends == 1) & (came > sizes)))
    if len(twice):
        raise LostBatchesError(f"tf.data service: {_described(twice, delivered)} came twice")
    return np.flatnonzero((ends == 0) | (came < sizes))


def refuse_lost(delivered: NDArray[np.int64]) -> None:
    """Raises `LostBatchesError` unless an epoch is complete; see `broken_parts`."""
    broken = broken_parts(delivered)
    if len(broken):
        raise LostBatchesError(
            f"tf.data service: {_described(broken, delivered)} are incomplete; workers were lost repeatedly"
        )


def _described(parts: NDArray[np.int64], delivered: NDArray[np.int64]) -> str:
    came = delivered[0]
    return f"{len(parts)} of {len(came)} parts of the epoch (first: part {parts[0]}, {came[parts[0]]} batches)"


def _served_batches(
    reader: ExampleReader,
    read: PoolParts,
    batch_size: int,
    *,
    service: str,
    name: str,
    trained: NDArray[Any],
    only: NDArray[Any] | None = None,
) -> tf.data.Dataset:
    """Returns (part, number in part, batch) of one epoch: every batch goes to exactly one of the ranks.

    The n batches of a part are followed by an empty one numbered ~n: the pool does not report what it loses with a
    worker, and the ranks recognize an incomplete part by the missing end.

    All ranks must make the same request under the same name. `only` limits it to some parts. See `PoolEpoch` for the
    other arguments.
    """
    num_parts = len(read.parts)
    numbers = np.arange(num_parts) if only is None else np.sort(only)
    is_trained = np.zeros([num_parts, int(trained[:, 1].max(initial=-1)) + 2], np.bool_)
    is_trained[trained[:, 0], trained[:, 1]] = True
    dataset = _batches(
        reader,
        parts_as_tensors(read.parts, read.seed),
        read.order,
        read.shuffle_buffer,
        batch_size,
        tf.constant(numbers, tf.int64),
        tf.constant(is_trained),
    )
    return dataset.apply(
        data_service_ops._distribute(
            processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
            service=f"grpc://{service}",
            job_name=name,
            # To decompress costs a rank more than to receive.
            compression=None,
            task_refresh_interval_hint_ms=_ASK_EVERY_MS,
        )
    ).prefetch(2)


@traced_once
def _batches(
    reader: ExampleReader,
    parts: Parts,
    order: Order,
    shuffle_buffer: int,
    batch_size: int,
    numbers: tf.Tensor,
    is_trained: tf.Tensor,
) -> tf.data.Dataset:
    read = PartReader(reader.table, parts, order, shuffle_buffer, count_ids=reader.count_ids)
    # The pool hands out elements of this first dataset, a few at a time, to its workers. tf.data must not shuffle
    # it: the first worker would take all parts into its buffer.
    dataset = tf.data.Dataset.from_tensor_slices(numbers)
    dataset = dataset.flat_map(lambda part: _batches_of_part(reader, read, batch_size, part))
    dataset = dataset.filter(lambda part, number, _: (number < 0) | ~_look_up(is_trained, part, number))
    return dataset.map(lambda part, number, rows: (part, number, reader.batch_of(rows)))


def _look_up(is_trained: tf.Tensor, part: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    # The last column is False, for all numbers beyond the table.
    return is_trained[part, tf.clip_by_value(number, 0, tf.shape(is_trained, tf.int64)[1] - 1)]


def _batches_of_part(reader: ExampleReader, read: PartReader, batch_size: int, part: tf.Tensor) -> tf.data.Dataset:
    """Returns (part, number, rows) of the batches of one part, a function of its arguments alone."""
    end = tf.data.Dataset.from_tensors(reader.table.empty())

    def named(number: tf.Tensor, rows: Rows) -> tuple[tf.Tensor, tf.Tensor, Rows]:
        return part, tf.where(num_rows(rows) > 0, number, -1 - number), rows

    return read.batches(part, batch_size).concatenate(end).enumerate().map(named)
