"""The batches that one rank trains on, epoch after epoch, and its position in them."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.example_files import by_day
from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.input.example_reader import ExampleReader, reader_of
from sangam.trainer_module.input.local_reader import evenly, own_batches, validation_batches
from sangam.trainer_module.input.position import Position
from sangam.trainer_module.input.service_reader import (
    PoolEpoch,
    PoolParts,
    broken_parts,
    refuse_lost,
    training_parts,
    validation_parts,
)
from sangam.trainer_module.input.service_watch import ServiceWatch, watch_of

_LOG = logging.getLogger("sangam.trainer_module.rank")
_MOST_TIMES_LOST = 10
"""Most losses in an epoch: each time, another worker was lost while it read the batches of the one before."""


def no_batches() -> NDArray[Any]:
    """Returns an empty list of a pool's batches."""
    return np.zeros([0, 2], np.int64)


class TrainInput:
    """A job's examples, from a position on."""

    def __init__(
        self,
        job: TrainJob,
        files: Sequence[str],
        *,
        rank: int,
        ranks: int,
        service: str,
        attempt: str,
        start: Position,
        trained: NDArray[Any],
        reader: ExampleReader | None = None,
        watch: ServiceWatch | None = None,
    ):
        """Begins at a position.

        Args:
            job: says how examples are ordered and batched.
            files: files of examples.
            rank: this one.
            ranks: number of ranks.
            service: host:port of the pool's dispatcher; empty: every rank reads for itself.
            attempt: names this attempt of the job.
            start: position to begin at.
            trained: [n, 2], batches of the pool that all ranks have trained on in the epoch of `start`.
            reader: reader of the files; None: the job's.
            watch: over the service that the job has joined; None: the job's.
        """
        self._reader = reader or reader_of(job)
        self._job, self._files, self._rank, self._ranks = job, files, rank, ranks
        self._service, self._attempt = service, attempt
        self._watch = watch or watch_of(job, rank)
        self._start, self._trained = start, trained
        self._epoch, self._examples_before = start.epoch, 0
        self._parts = start.parts
        self._pool_epoch: PoolEpoch | None = None
        self._next: tuple[int, PoolEpoch] | None = None
        self._times_lost = 0

    def then(self, files: Sequence[str], epoch: int) -> "TrainInput":
        """Returns the input that continues with other files, from an epoch on."""
        return TrainInput(
            self._job,
            files,
            rank=self._rank,
            ranks=self._ranks,
            service=self._service,
            attempt=f"{self._attempt}-then",  # The pool may have begun this epoch of the other files.
            start=Position(epoch=epoch),
            trained=no_batches(),
            reader=self._reader,
            watch=self._watch,
        )

    def batches(self, epoch: int, examples: int) -> Iterable[Batch]:
        """Returns the rest of an epoch.

        Args:
            epoch: number of the epoch, from 0.
            examples: trained on so far, over all ranks and epochs.
        """
        done = self._start.examples if epoch == self._start.epoch else 0
        if epoch != self._start.epoch:
            self._trained = no_batches()
        self._epoch, self._examples_before, self._times_lost = epoch, examples - done, 0
        ranker = self._job.ranker
        if not self._service:
            return own_batches(
                ranker, self._files, epoch=epoch, rank=self._rank, ranks=self._ranks, skip=done, reader=self._reader
            )
        begun, self._next = self._next, None
        self._pool_epoch = begun[1] if begun and begun[0] == epoch else self._training_epoch(epoch, self._trained)
        self._parts = self._pool_epoch.num_parts
        return self._pool_epoch

    def begin(self, epoch: int) -> None:
        """Has the pool begin an epoch that `batches` may ask for next, and would wait a second for; once for an epoch.

        Between two steps, of all ranks the same: it takes a while.
        """
        if self._service and (self._next is None or self._next[0] != epoch):
            self._next = epoch, self._training_epoch(epoch, no_batches())

    def _training_epoch(self, epoch: int, trained: NDArray[Any]) -> PoolEpoch:
        read = training_parts(self._job.ranker, self._files, epoch)
        return self._epoch_of(read, f"train-{self._attempt}-epoch-{epoch}", trained)

    def validation(self, moment: str, attempt: int) -> Iterable[Batch]:
        """Returns this rank's share of the validation split.

        Args:
            moment: name of the moment at which the split is scored.
            attempt: counts how often it was begun at this moment, from 0.
        """
        if attempt == 0:
            self._times_lost = 0
        ranker, files = self._job.ranker, self._job.validation_files
        if not self._service:
            return validation_batches(ranker, files, rank=self._rank, ranks=self._ranks, reader=self._reader)
        read = validation_parts(ranker, files)
        return self._epoch_of(read, f"validate-{self._attempt}-{moment}-{attempt}", no_batches())

    def validation_sample(self, size: int) -> list[Batch]:
        """Returns this rank's share of about so many examples of the split, from all over; it reads by itself."""
        return self._sample(self._job.validation_files, size)

    def newest_sample(self, days: int, size: int) -> list[Batch]:
        """Returns such a share of examples of the newest train days: of so many that have some."""
        assert days > 0, "logs without days have no newest ones"
        newest = list(by_day(self._job.train_files).values())[-days:]
        return self._sample([file for of_day in newest for file in of_day], size)

    def train_sample(self, size: int) -> list[Batch]:
        """Returns such a share of examples from all over the train split."""
        return self._sample(self._job.train_files, size)

    def _sample(self, files: Sequence[str], size: int) -> list[Batch]:
        ranker = self._job.ranker
        batches = validation_batches(ranker, files, rank=self._rank, ranks=self._ranks, reader=self._reader)
        return evenly(batches, -(-size // (ranker.training.batch_size_per_rank * self._ranks)))

    def _epoch_of(self, read: PoolParts, name: str, trained: NDArray[Any]) -> PoolEpoch:
        batch_size = self._job.ranker.training.batch_size_per_rank
        return PoolEpoch(
            self._reader, read, batch_size, service=self._service, name=name, trained=trained, watch=self._watch
        )

    def came_whole(self, validation: Iterable[Batch]) -> bool:
        """Says whether the ranks together received all of `validation`; all of them call it after the last batch.

        Raises:
            LostBatchesError: on all ranks, when the pool keeps losing some.
        """
        if not isinstance(validation, PoolEpoch):
            return True
        return len(self._broken_parts(validation.delivered(no_batches()))) == 0

    def lost_batches(self) -> Iterable[Batch] | None:
        """Returns batches of this epoch that were lost with a data worker; None when the epoch is complete.

        All ranks call it together, when none has a batch left.

        Raises:
            LostBatchesError: on all ranks, when the pool keeps losing some.
        """
        if self._pool_epoch is None:
            return None
        broken = self._broken_parts(self._pool_epoch.delivered(self._trained_before()))
        if len(broken) == 0:
            return None
        _LOG.warning("a data worker was lost: reading parts=%s of the epoch again", broken.tolist())
        mine = np.concatenate([self._trained, self._pool_epoch.taken])
        mine = mine[np.isin(mine[:, 0], broken)]
        # The ranks agree on the highest number first, then on the batches that some rank has received.
        last = int(collectives.allreduce_max(tf.constant(mine[:, 1].max(initial=0)), name="last_number"))
        came = np.zeros([self._parts, last + 1], np.int32)
        came[mine[:, 0], mine[:, 1]] = 1
        anywhere = collectives.allreduce_max(tf.constant(came), name="came").numpy()
        self._pool_epoch.ask_again(broken, np.argwhere(anywhere))
        return self._pool_epoch

    def _broken_parts(self, delivered: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the parts that have not come whole to the ranks together."""
        delivered = collectives.allreduce_sum(tf.constant(delivered), name="delivered").numpy()
        broken = broken_parts(delivered)
        if len(broken):
            self._times_lost += 1
            if self._times_lost > _MOST_TIMES_LOST:
                refuse_lost(delivered)
        return broken

    def _trained_before(self) -> NDArray[Any]:
        """Returns the batches trained on before this process; rank 0 answers for all ranks."""
        return self._trained if self._rank == 0 else no_batches()

    def stepped(self) -> None:
        """Counts a step."""
        if self._pool_epoch is not None:
            self._pool_epoch.stepped()

    def position(self, examples: int) -> Position:
        """Returns the position after training on so many examples in all."""
        return Position(epoch=self._epoch, examples=examples - self._examples_before, parts=self._parts)

    def trained(self) -> NDArray[Any]:
        """Returns this rank's share of the pool's batches trained on in this epoch: [n, 2] int64."""
        before = self._trained_before()
        return np.concatenate([before, self._pool_epoch.trained()]) if self._pool_epoch is not None else before
