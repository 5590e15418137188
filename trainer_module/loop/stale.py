"""Training in step with rows that are a few batches old; see `served`.

Reference: Lian et al.: Persia: an open, hybrid system scaling deep learning-based recommenders up to 100 trillion
parameters, KDD 2022, section 4.1.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from sangam.schemas.spec.sync import Stale
from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch, then_empty
from sangam.trainer_module.loop.served import Computed, Numbered, ServedTrainer
from sangam.trainer_module.loop.step import StepResult
from sangam.trainer_module.parameter_server.rows import Update
from sangam.trainer_module.progress import Progress


class StaleTrainer(ServedTrainer):
    """Sums dense gradients over the ranks in every step: dense weights are equal on all ranks."""

    _num_compared = 0

    def _steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        waiting: deque[Numbered] = deque()
        source = then_empty(batches, self.ranker.layout)
        assert isinstance(self._sync, Stale)
        while True:
            most, left = self._sync.staleness + 1, self.next_pause - self.step
            # Never read ahead past a checkpoint: it would count these batches, and a resumed training again.
            self._offer(source, waiting, min(most, left) if left > 0 else most)
            trained = self._train(waiting.popleft())
            if int(trained.count) == 0:
                return
            if self.step % self._sync.compare_every_steps == 0 and bool(trained.is_finite):
                self._compare()
            yield trained

    def _follow(self, message: tf.Tensor) -> Computed:
        if self.ranks > 1:
            message = tf.constant(self._tables.servers.sum_spread(message.numpy(), "dense"))
        result, scale, factor, step = self._graphs.update(message)
        return Computed(result, Update(int(step), float(scale), float(factor)))

    def _settle(self) -> None:
        self._check_pushes()
        collectives.barrier(name="settled")

    def evict_if_due(self, progress: Progress) -> float:
        """See `Trainer`. All ranks together."""
        is_due = self.step % self.ranker.spec.training.evict_every_steps == 0
        return self.evict(progress) if is_due else 0.0

    def exchange_report(self) -> dict[str, Any]:
        """See `Trainer`."""
        return {**super().exchange_report(), "dense": {"compared": self._num_compared, "sha256": self._compare()}}

    def _compare(self) -> str:
        """Compares the dense weights of all ranks; returns their hash.

        Raises:
            RuntimeError: they differ.
        """
        digest = hashlib.sha256(self.dense.flat.numpy().tobytes()).hexdigest()
        digests = collectives.texts(digest, name="digests")
        if len(set(digests)) > 1:
            raise RuntimeError(f"training: the ranks' dense weights differ after step {self.step} (got {digests})")
        self._num_compared += 1
        return digest
