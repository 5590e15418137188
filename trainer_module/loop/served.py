"""Training with parameter servers: rows are pulled ahead of the steps and updated behind them.

The common part of these modes; `stale`, `shadow` and `asynchronous` differ in their use of the dense gradient.
"""

import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.spec.sync import Served
from sangam.trainer_module import collectives
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.served_step import ServedStep
from sangam.trainer_module.loop.step import StepResult
from sangam.trainer_module.loop.trainer import Held, Trainer
from sangam.trainer_module.monitoring.training import TrainingFacts
from sangam.trainer_module.parameter_server.ahead import Ahead, Pushed
from sangam.trainer_module.parameter_server.client import Servers
from sangam.trainer_module.parameter_server.lane import Call
from sangam.trainer_module.parameter_server.routing import Request
from sangam.trainer_module.parameter_server.rows import Update
from sangam.trainer_module.parameter_server.shard import Outcome
from sangam.trainer_module.parameter_server.tables import ServedTables
from sangam.trainer_module.progress import Progress
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.snapshot import Arrays, Snapshot, StoredSnapshot

_LARGEST_STALENESS = 1024


class Numbered(NamedTuple):
    """A batch between its pull and its push.

    Attributes:
        number: batch number in calls to servers.
        batch: features.
        request: its keys.
        newest: minute of its newest event.
    """

    number: int
    batch: Batch
    request: Request
    newest: int


class Computed(NamedTuple):
    """The result of processing a rank's message.

    Attributes:
        result: the result of the step.
        update: the update of the rows.
        dense: gradient of the dense weights, a sum, if servers update them: [size].
    """

    result: StepResult
    update: Update
    dense: NDArray[Any] | None = None


class ServedTrainer(Trainer):
    """A ranker in training on one rank, with its rows on parameter servers."""

    def __init__(
        self,
        ranker: Ranker,
        servers: Servers,
        *,
        rank: int,
        ranks: int,
        last_minute: int | None = None,
        model: tf.Variable | None = None,
    ):
        """See `Trainer`.

        Args:
            ranker: the model.
            servers: the servers that hold its rows.
            rank: this rank.
            ranks: number of ranks.
            last_minute: see `Trainer`.
            model: the dense weights that are validated and exported; None: those that this rank trains.
        """
        super().__init__(ranker, rank=rank, ranks=ranks, last_minute=last_minute)
        sync = ranker.spec.training.sync
        assert isinstance(sync, Served)
        self._sync: Served = sync
        self._tables = ServedTables(ranker.groups, servers)
        self._number = self._pushed = self._updates = 0
        self._staleness: Counter[int] = Counter()
        self._refused = self._newly_refused = 0
        self._ahead: Ahead | None = None
        scored = self.model if model is None else model
        self._graphs = ServedStep(self._state, scored, servers=len(servers), is_half=sync.wire == "float16")

    def steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """See `Trainer`."""
        self._ahead = Ahead(
            self._sync.staleness,
            pull=self._pull,
            finish=self._tables.finish,
            while_waiting=self._tables.servers.while_waiting,
            first=self._number,
        )
        ahead = self._ahead
        yield from self._steps(batches)
        self._ahead = None
        in_vain = ahead.close()
        for pushed in ahead.results():
            self._note(pushed)
        for number in in_vain:
            self._tables.finish(self._tables.skip(number))
        self._number = self._pushed = ahead.next_number
        self._settle()

    @abstractmethod
    def _steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """See `steps`; `_ahead` is open."""

    @abstractmethod
    def _follow(self, message: tf.Tensor) -> Computed:
        """Updates the rank's own dense weights from its message, see `step.Local`."""

    @abstractmethod
    def _settle(self) -> None:
        """Synchronizes the model on all ranks, after `_drain`. All ranks together."""

    def _offer(self, source: Iterator[Batch], waiting: "deque[Numbered]", most: int) -> None:
        """Reads up to `most` batches ahead, and sends their keys to the servers."""
        assert self._ahead is not None
        while len(waiting) < most:
            batch = next(source, None)
            if batch is None:
                return
            routed, newest = self._graphs.route(self.ranker.unseen.read(batch))
            waiting.append(Numbered(self._number, batch, Request.of(routed), int(newest)))
            self._ahead.offer(self._number, waiting[-1].request)
            self._number += 1

    def _train(self, batch: Numbered) -> StepResult:
        assert self._ahead is not None
        answers = self._ahead.take(batch.number)
        embeddings, dense = self._tables.embeddings(answers)
        if dense is not None:
            self.dense.flat.assign(dense)
        index = {name: tf.constant(keys.index_n) for name, keys in batch.request.groups.items()}
        message, gradients, scales = self._graphs.local(batch.batch, embeddings, index)
        result, update, own_dense = self._follow(message)
        if not bool(result.is_finite) or float(result.count) == 0.0:
            begun = self._tables.skip(batch.number)
        else:
            begun = self._tables.push(batch.number, batch.request, gradients, scales, update, batch.newest, own_dense)
        self._ahead.push(batch.number, begun)
        self._pushed = batch.number + 1
        for pushed in self._ahead.results():
            self._note(pushed)
        return result

    def _pull(self, number: int, request: Request) -> Sequence[Call]:
        return self._tables.pull(number, request, int(self._state.step) + 1)

    def _note(self, pushed: Pushed) -> None:
        self._updates = max(self._updates, pushed.updates)
        if pushed.outcome == Outcome.REFUSED:
            self._refused += 1
            self._newly_refused += 1
        elif pushed.outcome == Outcome.APPLIED:
            self._staleness[min(pushed.staleness, _LARGEST_STALENESS - 1)] += 1

    def _drain(self) -> None:
        """Waits until the servers have applied every push of this rank."""
        if self._ahead is not None:
            self._ahead.drain(self._pushed)
            for pushed in self._ahead.results():
                self._note(pushed)

    def _check_pushes(self) -> None:
        """Checks that every server has applied each of this rank's pushes once.

        Raises:
            RuntimeError: a server has not.
        """
        for number, told in enumerate(self._tables.account()):
            done = told["pushes"][self.rank]
            if done != self._pushed:
                raise RuntimeError(
                    f"training: parameter server {number} has carried out {done} pushes of rank {self.rank}, which has "
                    f"sent {self._pushed}"
                )

    def begin(self) -> None:
        """See `Trainer`."""
        if self.rank == 0:
            vectors = {name: flat.numpy() for name, flat in self._flats().items()}
            step, newest = int(self._state.step) * self.updates_a_step, max(int(self._newest), 0)
            self._tables.begin(vectors, step=step, newest=newest)
        collectives.barrier(name="servers_begun")

    def evict(self, progress: Progress) -> float:
        """See `Trainer`."""
        started = time.monotonic()
        with progress.beating():
            self._evict_alone()
            collectives.barrier(name="evicted")
        return time.monotonic() - started

    def _evict_alone(self) -> None:
        """Has the servers remove rows, if this is the first rank, once they have applied all its pushes."""
        if self.rank == 0 and any(group.counts_occurrences for group in self.ranker.groups.values()):
            self._drain()
            self._tables.evict()

    def statistics(self) -> dict[str, dict[str, Any]]:
        """See `Trainer`."""
        return self._tables.statistics()

    def facts(self) -> TrainingFacts:
        """See `Trainer`."""
        return TrainingFacts(self.learning_rates(), staleness=dict(self._staleness), refused=self._refused)

    def take_refused(self) -> int:
        """See `Trainer`."""
        refused, self._newly_refused = self._newly_refused, 0
        return refused

    def exchange_report(self) -> dict[str, Any]:
        """See `Trainer`."""
        histogram = np.zeros([_LARGEST_STALENESS], np.int64)
        for staleness, times in self._staleness.items():
            histogram[staleness] = times
        histogram = collectives.allreduce_sum(tf.constant(histogram), name="staleness").numpy()
        refused = int(collectives.allreduce_sum(tf.constant(self._refused), name="refused"))
        return {
            "kind": self._sync.kind,
            "staleness": {str(staleness): int(histogram[staleness]) for staleness in np.flatnonzero(histogram)},
            "refused_pushes": refused,
            "servers": self._tables.report(),
        }

    def logits(self, batch: Batch) -> tf.Tensor:
        """See `Trainer`."""
        return self._score(batch, self._graphs.score)

    def logits_on_host(self, batch: Batch) -> tf.Tensor:
        """See `Trainer`."""
        has_other = self.ranker.placement.accelerator is not None
        return self._score(batch, self._graphs.score_on_host if has_other else self._graphs.score)

    def _score(self, batch: Batch, score: Callable[..., tf.Tensor]) -> tf.Tensor:
        request = Request.of(self._graphs.read_keys(batch))
        embeddings = self._tables.read(request)
        index = {name: tf.constant(keys.index_n) for name, keys in request.groups.items()}
        return score(batch, embeddings, index)

    def _without_rows(self) -> tuple[Arrays, Arrays]:
        self._drain()
        return super()._without_rows()

    def _rows(self, held: Callable[[RowStore], Held]) -> dict[str, Held]:
        del held
        return {}

    def save_rows(self, target: Path) -> None:
        """See `Trainer`."""
        if self.rank == 0:
            self._tables.save(target)
        # The servers have copied their rows: the rows may change.
        collectives.barrier(name="rows_copied")

    def restore(
        self, snapshot: Snapshot | StoredSnapshot, directory: Path | None = None, *, is_base: bool = False
    ) -> None:
        """See `Trainer`."""
        self._restore_dense(snapshot)
        if self.rank == 0 and directory is not None:
            self._tables.load(directory, is_base=is_base)
