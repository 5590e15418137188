"""Deltas of an online training: every rank writes its rows, rank 0 seals them."""

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module import collectives
from sangam.trainer_module.embedding.delta import take_delta
from sangam.trainer_module.embedding.hashing import owner_of
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.online.delta_files import arrays, write_dense, write_rows

_LOG = logging.getLogger("sangam.trainer_module.online")


class Publisher:
    """Publishes the changes since the last delta.

    Attributes:
        lineage: name of the version that the deltas start from.
        number: number of the last delta.
        full_at: number of the last delta in a full version.
        has_changes: whether published rows must be published again.
    """

    def __init__(self, job: TrainJob, trainer: Trainer):
        """Takes the job, and a trainer whose stores track changes."""
        assert job.stream is not None
        assert isinstance(trainer, InStepTrainer)
        self._job, self._trainer = job, trainer
        self._versions, self.lineage = Path(job.stream.versions), job.stream.lineage
        self.number, self.full_at, self.has_changes = 0, 0, False

    def begin(self, *, after_segment: int) -> None:
        """Resumes after the published deltas. All ranks together.

        Rows published after the checkpoint that this training resumes from are marked as changed: training may not
        repeat them bit by bit, so the next delta replaces all of them on the servers.

        Args:
            after_segment: segment of the checkpoint; 0: training starts from its base.
        """
        collectives.barrier(name="deltas_read")
        if after_segment == 0:
            for store in self._stores.values():
                assert store.removed is not None
                store.removed.clear()  # The base has no log of changes; its version contains all its rows.
        places = [deltas.lineage_of(path) for path in self._versions.iterdir() if path.name.isdecimal()]
        self.full_at = max(
            (place.number for place in places if place is not None and place.lineage == self.lineage), default=0
        )
        numbers = deltas.published(self._versions, self.lineage)
        self.number = max([*numbers, self.full_at])
        for number in reversed(numbers):
            delta = deltas.read(self._versions, self.lineage, number)
            if delta.segment <= after_segment:
                return  # The checkpoint includes this and all earlier deltas.
            self._tell_again(delta)
        if self.number and (not numbers or numbers[0] > 1):
            _LOG.warning("deltas of %s that must be repeated no longer exist: writing a full version", self.lineage)
            self._tell_all()

    def _tell_all(self) -> None:
        """Makes the next delta incomplete, followed by a full version: the rows to publish again are unknown."""
        self.has_changes = True
        for store in self._stores.values():
            assert store.removed is not None
            store.removed.lose()

    @property
    def _stores(self) -> dict[str, RowStore]:
        assert isinstance(self._trainer, InStepTrainer)
        return self._trainer.tables.stores

    def _tell_again(self, delta: deltas.Delta) -> None:
        self.has_changes = True
        if not delta.is_whole:
            self._tell_all()
        for name, store in self._stores.items():
            try:
                told = [each for what in ("keys", "removed") for each in arrays(self._versions, delta, name, what)]
            except (OSError, ValueError) as error:
                _LOG.warning("delta %d cannot be read: a full version follows (got %s)", delta.number, error)
                self._tell_all()
                return
            keys = np.unique(np.concatenate([np.zeros(0, np.int64), *told]))
            mine = keys[owner_of(tf.constant(keys), self._trainer.ranks).numpy() == self._trainer.rank]
            numbers = store.find(tf.constant(mine)).numpy()
            store.mark(tf.constant(numbers[numbers > 0]), True)
            assert store.removed is not None
            store.removed.add(mine[numbers == 0])

    def hold(self) -> str:
        """Returns the reason to publish no delta; empty: publish."""
        held = deltas.read_hold(self._versions, self.lineage)
        return "" if held is None else f"held at delta {held.number}: {held.because}"

    def publish(self, *, dense: bool, segment: int, newest_event: int | None, examples: int) -> bool:
        """Publishes the next delta. All ranks together.

        Returns:
            Whether it is complete. Servers do not apply an incomplete one, and a full version must follow.

        Args:
            dense: whether to include the dense weights.
            segment: last segment trained on.
            newest_event: newest event trained on, seconds since 1970.
            examples: number of examples trained on.
        """
        started, number, rank = time.monotonic(), self.number + 1, self._trainer.rank
        path = deltas.path_of(self._versions, self.lineage, number)
        if rank == 0:
            deltas.begin(self._versions, self.lineage, number)
        collectives.barrier(name="delta_begun")
        taken = {name: take_delta(store) for name, store in self._stores.items()}
        for name, delta in taken.items():
            write_rows(path, name, rank, delta)
        if dense and rank == 0:
            write_dense(path, self._trainer.model.numpy())
        numbers = [[len(delta.keys), len(delta.removed), delta.needs_full_export] for delta in taken.values()]
        counts = tf.constant(np.array(numbers, np.int64).reshape(-1, 3))
        counts = collectives.allreduce_sum(counts, name="delta_written").numpy()
        is_whole = not counts[:, 2].any()
        if rank == 0:
            groups = dict(zip(taken, _as_groups(counts), strict=True))
            deltas.publish(
                path,
                ranker=self._job.ranker.name,
                lineage=self.lineage,
                number=number,
                segment=segment,
                newest_event=newest_event,
                examples=examples,
                groups=groups,
                dense=dense,
                is_whole=is_whole,
            )
            told = (number, counts[:, 0].sum(), counts[:, 1].sum(), dense, is_whole, time.monotonic() - started)
            _LOG.info("delta=%d rows=%d removed=%d dense=%s whole=%s seconds=%.3f", *told)
        self.number = number
        return is_whole


def _as_groups(counts: NDArray[Any]) -> list[deltas.GroupChange]:
    return [deltas.GroupChange(rows=int(rows), removed=int(removed)) for rows, removed, _ in counts]
