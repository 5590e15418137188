"""The batches that one rank trains on, epoch after epoch, and how far they have been trained on."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from schemas.contracts.training_job import TrainJob
from trainer_module import collectives
from trainer_module.checkpoint.manifest import Position
from trainer_module.input.batch import Batch
from trainer_module.input.local_reader import own_batches, validation_batches
from trainer_module.input.service_reader import PoolEpoch, training_records, validation_records


def no_batches() -> NDArray[Any]:
    """Returns the names of no batches of a pool."""
    return np.zeros([0, 2], np.int64)


class TrainInput:
    """Examples that a job trains on, from a given position on."""

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
    ):
        """Takes the input up.

        Args:
            job: says how examples are ordered and batched.
            files: of examples.
            rank: this one.
            ranks: number of ranks.
            service: host:port of the pool's dispatcher; empty: every rank reads for itself.
            attempt: names this attempt of the job.
            start: where to begin.
            trained: [n, 2], batches of the pool that all ranks have trained on in the epoch of `start`.
        """
        self._job, self._files, self._rank, self._ranks = job, files, rank, ranks
        self._service, self._attempt = service, attempt
        self._start, self._trained = start, trained
        self._epoch, self._examples_before = start.epoch, 0
        self._parts = start.parts
        self._pool_epoch: PoolEpoch | None = None

    def then(self, files: Sequence[str], epoch: int) -> "TrainInput":
        """Returns the input that goes on with other files, from an epoch on."""
        return TrainInput(
            self._job,
            files,
            rank=self._rank,
            ranks=self._ranks,
            service=self._service,
            attempt=self._attempt,
            start=Position(epoch=epoch),
            trained=no_batches(),
        )

    def batches(self, epoch: int, examples: int) -> Iterable[Batch]:
        """Returns what is left of an epoch.

        Args:
            epoch: from 0.
            examples: trained on so far, over all ranks and epochs.
        """
        done = self._start.examples if epoch == self._start.epoch else 0
        if epoch != self._start.epoch:
            self._trained = no_batches()
        self._epoch, self._examples_before = epoch, examples - done
        ranker = self._job.ranker
        if not self._service:
            return own_batches(ranker, self._files, epoch=epoch, rank=self._rank, ranks=self._ranks, skip=done)
        records = training_records(ranker, self._files, epoch)
        self._parts = records.num_parts
        self._pool_epoch = PoolEpoch(
            ranker, records, service=self._service, name=f"train-{self._attempt}-epoch-{epoch}", trained=self._trained
        )
        return self._pool_epoch

    def validation(self, epoch: int, again: int) -> Iterable[Batch]:
        """Returns this rank's share of the validation split, to be scored after an epoch, as often as it takes."""
        ranker, files = self._job.ranker, self._job.validation_files
        if not self._service:
            return validation_batches(ranker, files, rank=self._rank, ranks=self._ranks)
        name = f"validate-{self._attempt}-epoch-{epoch}-{again}"
        records = validation_records(ranker, files)
        return PoolEpoch(ranker, records, service=self._service, name=name, trained=no_batches())

    def stepped(self) -> None:
        """Says that one more step has been trained."""
        if self._pool_epoch is not None:
            self._pool_epoch.stepped()

    def delivered(self) -> NDArray[np.int64] | None:
        """Returns what the pool has delivered of this epoch; summed over ranks, for `broken_parts`. None: no pool."""
        if self._pool_epoch is None:
            return None
        return self._pool_epoch.delivered(before=self._trained if self._rank == 0 else no_batches())

    def ask_again(self, broken: NDArray[np.int64]) -> Iterable[Batch]:
        """Returns what the pool has lost of parts of this epoch; all ranks call it, when none has a batch left."""
        assert self._pool_epoch is not None
        mine = np.concatenate([self._trained, self._pool_epoch.taken])
        mine = mine[np.isin(mine[:, 0], broken)]
        # How many numbers there are, and then which of them some rank was given.
        last = int(collectives.allreduce_max(tf.constant(mine[:, 1].max(initial=0)), name="last_number"))
        came = np.zeros([self._parts, last + 1], np.int32)
        came[mine[:, 0], mine[:, 1]] = 1
        anywhere = collectives.allreduce_max(tf.constant(came), name="came").numpy()
        self._pool_epoch.ask_again(broken, np.argwhere(anywhere))
        return self._pool_epoch

    def position(self, examples: int) -> Position:
        """Returns where training stands, when it has trained on so many examples in all."""
        return Position(epoch=self._epoch, examples=examples - self._examples_before, parts=self._parts)

    def trained(self) -> NDArray[Any]:
        """Returns this rank's share of the pool's batches that are done in this epoch: [n, 2] int64."""
        before = self._trained if self._rank == 0 else no_batches()
        return np.concatenate([before, self._pool_epoch.trained()]) if self._pool_epoch is not None else before
