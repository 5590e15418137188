"""The batches that one rank trains on, epoch after epoch, and how far they have been trained on."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer_module import collectives
from trainer_module.batch import Batch
from trainer_module.checkpoint.manifest import Position
from trainer_module.input import own_batches
from trainer_module.job import TrainJob
from trainer_module.pool_input import PoolEpoch, num_parts


def no_batches() -> NDArray[Any]:
    """Returns the names of no batches of a pool."""
    return np.zeros([0, 2], np.int64)


class TrainInput:
    """A job's training examples, from a given position on."""

    def __init__(
        self,
        job: TrainJob,
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
            job: says the files, and how they are batched.
            rank: this one.
            ranks: number of ranks.
            service: host:port of the pool's dispatcher; empty: every rank reads for itself.
            attempt: names this attempt of the job.
            start: where to begin.
            trained: [n, 2], batches of the pool that all ranks have trained on in the epoch of `start`.
        """
        self._job, self._rank, self._ranks = job, rank, ranks
        self._service, self._attempt = service, attempt
        self._start, self._trained = start, trained
        self._epoch, self._examples_before = start.epoch, 0
        self._parts = num_parts(job.ranker, len(job.train_files)) if service else 0
        self._pool_epoch: PoolEpoch | None = None

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
        job = self._job
        if not self._service:
            return own_batches(job.ranker, job.train_files, epoch=epoch, rank=self._rank, ranks=self._ranks, skip=done)
        self._pool_epoch = PoolEpoch(
            job.ranker,
            job.train_files,
            epoch=epoch,
            service=self._service,
            attempt=self._attempt,
            parts=self._parts,
            trained=self._trained,
        )
        return self._pool_epoch

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
