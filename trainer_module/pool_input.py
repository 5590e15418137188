"""Batches from a tf.data service pool, each with a name, so that an epoch can go on where it was left.

The pool's workers take parts of the files as they get free, and hand batches to whichever rank asks. A part is the same
stream in every run, and a batch is the n-th of its part: the names of the trained ones say all about the position.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from schemas.spec import Ranker
from trainer_module.batch import Batch, parser
from trainer_module.input import compression, shuffle_seed

_PARTS_PER_WORKER = 4
_PART_SEEDS = 1_000_003
_FILES_IN_TURN = 8


def num_parts(declared: Ranker, num_files: int) -> int:
    """Returns into how many parts the pool cuts the files: some for each worker, and equally many of each file."""
    wanted = _PARTS_PER_WORKER * declared.cluster.data_workers
    return wanted if num_files >= wanted else num_files * -(-wanted // num_files)


class LostBatchesError(RuntimeError):
    """The pool has not delivered each batch of an epoch once, however often it was asked; a later attempt gets them."""


class PoolEpoch:
    """One rank's batches of an epoch, and which of them it has trained on."""

    def __init__(
        self,
        declared: Ranker,
        files: Sequence[str],
        *,
        epoch: int,
        service: str,
        attempt: str,
        parts: int,
        trained: NDArray[Any],
    ):
        """Takes the epoch up.

        Args:
            declared: of the model; says batch size, shuffle buffer and seed.
            files: of transformed examples.
            epoch: from 0; epochs are shuffled differently.
            service: host:port of the dispatcher.
            attempt: names this attempt of the job; the pool may still know what an earlier one has asked for.
            parts: into how many the files are cut.
            trained: [n, 2] int64, the batches (part, number in part) that all ranks have trained on before.
        """
        self._dataset_of = functools.partial(served_batches, declared, files, epoch=epoch, service=service, parts=parts)
        self._name = f"train-{attempt}-epoch-{epoch}"
        self._dataset = self._dataset_of(name=self._name, trained=trained)
        self._num_parts = parts
        self._taken: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        self._steps = self._passes = 0

    def __iter__(self) -> Iterator[Batch]:
        for part, number, batch in self._dataset:
            if number < 0:
                self._ends.append((int(part), ~int(number)))
                continue
            self._taken.append((int(part), int(number)))
            yield batch

    def stepped(self) -> None:
        """Says that one more step has been trained: on the next batch taken, or on none if there was none left."""
        self._steps += 1

    def ask_again(self, broken: NDArray[Any], came: NDArray[Any]) -> None:
        """Makes the next iteration bring what is missing; all ranks call it, when all have trained on what has come.

        Args:
            broken: parts that did not come whole.
            came: [n, 2], batches of these parts that some rank has been given, now or in an earlier attempt.
        """
        self._passes += 1
        self._steps = len(self._taken)
        self._ends = [(part, size) for part, size in self._ends if part not in broken]
        name = f"{self._name}-again-{self._passes}"
        self._dataset = self._dataset_of(name=name, trained=came, only=broken)

    @property
    def taken(self) -> NDArray[Any]:
        """The batches that this rank has been given: [n, 2] int64."""
        return np.array(self._taken, np.int64).reshape(-1, 2)

    def delivered(self, before: NDArray[Any]) -> NDArray[np.int64]:
        """Returns how many batches of each part have come, how many ends, and how many batches they say: [3, parts].

        Args:
            before: [n, 2], batches that need not come: they have been trained on.
        """
        counts = np.zeros([3, self._num_parts], np.int64)
        np.add.at(counts[0], [part for part, _ in self._taken], 1)
        np.add.at(counts[0], before[:, 0], 1)
        for part, size in self._ends:
            counts[1:, part] += (1, size)
        return counts

    def trained(self) -> NDArray[Any]:
        """Returns the batches that this rank has trained on since it took the epoch up: [n, 2] int64."""
        # What has been fetched ahead of its step does not count.
        return np.array(self._taken[: self._steps], np.int64).reshape(-1, 2)


def broken_parts(delivered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the parts of an epoch that did not come whole.

    Args:
        delivered: `PoolEpoch.delivered`, summed over the ranks.

    Raises:
        LostBatchesError: something came twice.
    """
    came, ends, sizes = delivered
    twice = np.flatnonzero((ends > 1) | ((ends == 1) & (came > sizes)))
    if len(twice):
        raise LostBatchesError(f"tf.data service: {_described(twice, delivered)} came twice")
    return np.flatnonzero((ends == 0) | (came < sizes))


def refuse_lost(delivered: NDArray[np.int64]) -> None:
    """Looks whether an epoch is whole; see `broken_parts`.

    Raises:
        LostBatchesError: it is not.
    """
    broken = broken_parts(delivered)
    if len(broken):
        raise LostBatchesError(
            f"tf.data service: {_described(broken, delivered)} did not come whole; workers were lost again and again"
        )


def _described(parts: NDArray[np.int64], delivered: NDArray[np.int64]) -> str:
    came = delivered[0]
    return f"{len(parts)} of {len(came)} parts of the epoch (first: part {parts[0]}, {came[parts[0]]} batches)"


def served_batches(
    declared: Ranker,
    files: Sequence[str],
    *,
    epoch: int,
    service: str,
    name: str,
    parts: int,
    trained: NDArray[Any],
    only: NDArray[Any] | None = None,
) -> tf.data.Dataset:
    """Returns (part, number in part, batch) of one epoch: every batch goes to exactly one of the ranks.

    After the batches of a part comes an empty one whose number is ~n, n being how many they are: the pool keeps
    nothing of a lost worker, and nobody else would notice.

    All ranks must ask for the same, under the same name; of the parts in `only`, where it is given. See `PoolEpoch` for
    the other arguments.
    """
    # The pool hands out elements of this first dataset, a few at a time, to its workers. It is not shuffled by
    # tf.data: the first worker to come would take all into its buffer.
    order = np.random.default_rng(shuffle_seed(declared, epoch)).permutation(parts)
    if only is not None:
        order = order[np.isin(order, only)]
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(order, tf.int64))
    dataset = dataset.flat_map(lambda part: _part(declared, files, epoch, parts, part))
    if len(trained):
        is_trained = np.zeros([parts, int(trained[:, 1].max()) + 2], np.bool_)
        is_trained[trained[:, 0], trained[:, 1]] = True
        dataset = dataset.filter(lambda part, number, _: (number < 0) | ~_look_up(is_trained, part, number))
    parse = parser(declared)
    dataset = dataset.map(lambda part, number, serialized: (part, number, parse(serialized)))
    return dataset.apply(
        tf.data.experimental.service.distribute(
            processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
            service=f"grpc://{service}",
            job_name=name,
        )
    ).prefetch(2)


def _look_up(is_trained: NDArray[np.bool_], part: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    # The last column is False: it stands for all numbers beyond the table.
    return tf.constant(is_trained)[part, tf.clip_by_value(number, 0, is_trained.shape[1] - 1)]


def _part(declared: Ranker, files: Sequence[str], epoch: int, parts: int, part: tf.Tensor) -> tf.data.Dataset:
    """Returns (part, number, serialized examples [batch]) of one part, a function of its arguments alone."""
    training = declared.training
    dataset = _records_of_part(sorted(files), parts, part)
    if training.shuffle_buffer > 1:
        seed = part * _PART_SEEDS + shuffle_seed(declared, epoch)
        # Reshuffled, a part's order would depend on how many parts its worker has read before.
        dataset = dataset.shuffle(training.shuffle_buffer, seed=seed, reshuffle_each_iteration=False)
    dataset = dataset.batch(training.batch_size_per_rank)
    end = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))

    def named(number: tf.Tensor, serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return part, tf.where(tf.size(serialized) > 0, number, -1 - number), serialized

    return dataset.concatenate(end).enumerate().map(named)


def _records_of_part(files: Sequence[str], parts: int, part: tf.Tensor) -> tf.data.Dataset:
    if len(files) < parts:
        # Every k-th record of a file, so that even one file feeds all workers; reading is cheap beside parsing.
        per_file = parts // len(files)
        file = tf.constant(files)[part // per_file]
        return tf.data.TFRecordDataset(file, compression_type=compression(files)).shard(per_file, part % per_file)
    kind = compression(files)
    return tf.data.Dataset.from_tensor_slices(tf.constant(files)[part::parts]).interleave(
        lambda file: tf.data.TFRecordDataset(file, compression_type=kind), cycle_length=_FILES_IN_TURN, block_length=1
    )
