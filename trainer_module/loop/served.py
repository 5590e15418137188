"""Training with parameter servers: rows are pulled ahead of the steps and updated behind them.

`stale`: dense gradients are summed over the ranks in every step, as in `in_step`. `shadow` and `async`: every rank
trains at its own pace; the ranks meet only where a checkpoint is due and at the end of an epoch.
"""

import hashlib
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from schemas.spec.sync import Async, Served, Shadow, Stale
from trainer_module import collectives
from trainer_module.input.batch import Batch, ids_of, then_empty
from trainer_module.loop.history import EpochReport
from trainer_module.loop.served_step import ServedStep
from trainer_module.loop.step import StepResult
from trainer_module.loop.trainer import Trainer
from trainer_module.parameter_server.ahead import Ahead, Pushed
from trainer_module.parameter_server.averaging import Averaging
from trainer_module.parameter_server.client import Answer, Servers
from trainer_module.parameter_server.routing import Request
from trainer_module.parameter_server.rows import Update
from trainer_module.parameter_server.shard import Outcome
from trainer_module.parameter_server.tables import ServedTables
from trainer_module.progress import Progress
from trainer_module.ranker import Ranker
from trainer_module.snapshot import RowsSnapshot, Snapshot, StoredSnapshot

_WEIGHTS = "weights"
_LARGEST_STALENESS = 1024
_STEPS_TO_NEXT_TRY = 20


class _Batch(NamedTuple):
    number: int
    batch: Batch
    request: Request
    newest: int


class ServedTrainer(Trainer):
    """A ranker in training on one rank, its rows on parameter servers."""

    def __init__(
        self,
        ranker: Ranker,
        servers: Servers,
        *,
        rank: int,
        ranks: int,
        last_minute: int | None = None,
        is_dealt: bool = False,
    ):
        """See `Trainer`.

        Args:
            ranker: the model.
            servers: hold its rows.
            rank: this one.
            ranks: how many train together.
            last_minute: see `Trainer`.
            is_dealt: a pool gives each batch to whichever rank asks. Otherwise the ranks share each global batch, and
                what is left of an epoch is known only where all have trained on as many.
        """
        super().__init__(ranker, rank=rank, ranks=ranks, last_minute=last_minute)
        sync = ranker.spec.training.sync
        assert isinstance(sync, Served)
        self._sync: Served = sync
        self._tables = ServedTables(ranker.groups, servers)
        self._number = self._pushed = 0
        self._all_steps, self._paused_at, self._is_dealt = 0, 0, is_dealt
        self._own_updates = self._updates = self._examples = 0
        self._num_trained_before = 0
        self._staleness: Counter[int] = Counter()
        self._refused = self._newly_refused = 0
        self._ahead: Ahead | None = None
        self._averaging: Averaging | None = None
        self._num_compared = 0
        # What is validated and exported: in `shadow` the average, which no rank trains.
        is_average = isinstance(sync, Shadow)
        self._model = tf.Variable(self.dense.flat, trainable=False, name="average") if is_average else self.dense.flat
        self._graphs = ServedStep(self._state, self._model, servers=len(servers), is_half=sync.wire == "float16")

    @property
    def step(self) -> int:
        """See `Trainer`: where ranks have their own pace, all updates so far over the number of ranks."""
        return super().step if self._is_in_step else self._all_steps

    @property
    def updates_a_step(self) -> int:
        """See `Trainer`."""
        return 1 if self._is_in_step else self.ranks

    @property
    def _is_in_step(self) -> bool:
        return isinstance(self._sync, Stale)

    def steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """See `Trainer`.

        A rank at its own pace yields empty results while others train, so that it can save with them.
        """
        self._ahead = Ahead(
            self._sync.staleness,
            pull=self._pull,
            finish=self._tables.finish,
            while_waiting=self._tables.servers.while_waiting,
            first=self._number,
        )
        if isinstance(self._sync, Shadow):
            self._averaging = self._averaging or Averaging(self._tables.servers, self._sync, self.dense.flat)
        yield from self._steps_together(batches) if self._is_in_step else self._steps_alone(batches)
        ahead, self._ahead = self._ahead, None
        in_vain = ahead.close()
        for pushed in ahead.results():
            self._note(pushed)
        for number in in_vain:
            self._tables.finish(self._tables.skip(number))
        self._number = self._pushed = ahead.next_number
        self._settle()

    def _steps_together(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        waiting: deque[_Batch] = deque()
        source = then_empty(batches, self.ranker.layout)
        every = self._sync.compare_every_steps if isinstance(self._sync, Stale) else 0
        while True:
            self._offer(source, waiting)
            trained = self._train(waiting.popleft())
            if int(trained.count) == 0:
                return
            if self.step % every == 0 and bool(trained.is_finite):
                self._compare()
            yield trained

    def _steps_alone(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        waiting: deque[_Batch] = deque()
        source = iter(batches)
        updates_before, own_batches = self._paused_at, 0
        while True:
            self._offer(source, waiting)
            if not waiting:
                break
            trained = self._train(waiting.popleft())
            own_batches += 1
            if self._averaging is not None:
                self._averaging.after_step()
            done = self._updates if self._is_dealt else updates_before + own_batches * self.ranks
            self.may_save = done >= self._pause_after
            if self.may_save:
                self._pause(is_finished=False)
            yield trained
        self.may_save = True
        while not self._pause(is_finished=True):
            yield StepResult(tf.zeros([len(self.ranker.tasks)]), tf.constant(0.0), tf.constant(True))

    def _offer(self, source: Iterator[Batch], waiting: "deque[_Batch]") -> None:
        """Reads batches ahead, and names their keys to the servers."""
        assert self._ahead is not None
        most = self._sync.staleness + 1
        if self._is_in_step and (left := self.next_pause - self.step) > 0:
            # Nothing is read ahead of a checkpoint: what is resumed from it then equals what continues.
            most = min(most, left)
        while len(waiting) < most:
            batch = next(source, None)
            if batch is None:
                return
            routed, newest = self._graphs.route(ids_of(batch))
            waiting.append(_Batch(self._number, batch, Request.of(routed), int(newest)))
            self._ahead.offer(self._number, waiting[-1].request)
            self._number += 1

    def _train(self, batch: _Batch) -> StepResult:
        assert self._ahead is not None
        answers = self._ahead.take(batch.number)
        embeddings, dense = self._tables.embeddings(answers)
        if dense is not None:
            self.dense.flat.assign(dense)
        index = {name: tf.constant(keys.index_n) for name, keys in batch.request.groups.items()}
        message, gradients, scales = self._graphs.local(batch.batch, embeddings, index)
        own_dense: NDArray[Any] | None = None
        if isinstance(self._sync, Async):
            result, scale, factor, step, gradient = self._graphs.of_own(message)
            own_dense = gradient.numpy()
        else:
            if self._is_in_step and self.ranks > 1:
                message = tf.constant(self._tables.servers.sum_spread(message.numpy(), "dense"))
            result, scale, factor, step = self._graphs.update(message)
        if not bool(result.is_finite) or float(result.count) == 0.0:
            begun = self._tables.skip(batch.number)
        else:
            update = Update(int(step), float(scale), float(factor))
            begun = self._tables.push(batch.number, batch.request, gradients, scales, update, batch.newest, own_dense)
        self._ahead.push(batch.number, begun)
        self._pushed = batch.number + 1
        for pushed in self._ahead.results():
            self._note(pushed)
        return result

    def _pull(self, number: int, request: Request) -> Sequence[Answer]:
        return self._tables.pull(number, request, int(self._state.step) + 1)

    def _note(self, pushed: Pushed) -> None:
        self._updates = max(self._updates, pushed.updates)
        self._examples = max(self._examples, pushed.examples)
        if pushed.outcome == Outcome.REFUSED:
            self._refused += 1
            self._newly_refused += 1
        elif pushed.outcome == Outcome.APPLIED:
            self._own_updates += 1
            self._staleness[min(pushed.staleness, _LARGEST_STALENESS - 1)] += 1

    @property
    def _pause_after(self) -> int:
        """Updates in this attempt after which the ranks stop, equal on all of them."""
        due = (self.next_pause - self._num_trained_before) * self.ranks
        # Where a pause has led to no checkpoint, because the last one was still being written, another follows later.
        return due if due > self._paused_at else self._paused_at + _STEPS_TO_NEXT_TRY * self.ranks

    def _pause(self, *, is_finished: bool) -> bool:
        """Stops with all other ranks, each between two of its steps; returns whether none has a batch left."""
        self._drain()
        own = tf.constant([int(is_finished), self._own_updates], tf.int64)
        finished, updates = collectives.allreduce_sum(own, name="pause").numpy()
        self._paused_at = int(updates)
        self._all_steps = self._num_trained_before + int(updates) // self.ranks
        if finished < self.ranks:
            self._settle()
        return bool(finished == self.ranks)

    def _drain(self) -> None:
        """Waits until the servers have carried out every push of this rank."""
        if self._ahead is not None:
            self._ahead.drain(self._pushed)
            for pushed in self._ahead.results():
                self._note(pushed)

    def _settle(self) -> None:
        """Brings all ranks to one state of the model, between their steps. All ranks together."""
        if self._averaging is not None:
            self._averaging.settle()
        collectives.barrier(name="settled_model")
        self._check_pushes()
        if isinstance(self._sync, Shadow):
            self._model.assign(self._tables.dense()[_WEIGHTS])
        elif isinstance(self._sync, Async):
            for name, vector in self._tables.dense().items():
                self._flats()[name].assign(vector)
        # Nobody trains on before all have read.
        collectives.barrier(name="read_model")

    def _check_pushes(self) -> None:
        """Checks that every server has carried out each of this rank's pushes once.

        Raises:
            RuntimeError: one has not.
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
        if isinstance(self._sync, Shadow):
            self._model.assign(self.dense.flat)
        self._num_trained_before = self._all_steps = int(self._state.step)
        if self.rank == 0:
            vectors = {name: flat.numpy() for name, flat in self._flats().items()}
            step, newest = int(self._state.step) * self.updates_a_step, max(int(self._newest), 0)
            self._tables.begin(vectors, step=step, newest=newest)
        collectives.barrier(name="servers_begun")

    def evict(self, progress: Progress) -> float:
        """See `Trainer`."""
        started = time.monotonic()
        with progress.beating():
            if self.rank == 0 and any(group.counts_occurrences for group in self.ranker.groups.values()):
                self._tables.evict()
            collectives.barrier(name="evicted")
        return time.monotonic() - started

    def statistics(self) -> dict[str, dict[str, Any]]:
        """See `Trainer`."""
        return self._tables.statistics()

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
        report: dict[str, Any] = {
            "kind": self._sync.kind,
            "staleness": {str(staleness): int(histogram[staleness]) for staleness in np.flatnonzero(histogram)},
            "refused_pushes": refused,
            "servers": self._tables.report(),
        }
        if self._is_in_step:
            report["dense"] = {"compared": self._num_compared, "sha256": self._compare()}
        if isinstance(self._sync, Shadow):
            report["gap_steps"] = self._gaps()
        return report

    def _gaps(self) -> dict[str, float | int | None]:
        """Returns the number of exchanges of all ranks, and the steps between two of one rank."""
        gaps = [] if self._averaging is None else self._averaging.gaps
        own = tf.constant([len(gaps), sum(gaps)], tf.int64)
        number, total = collectives.allreduce_sum(own, name="gaps").numpy().tolist()
        longest = int(collectives.allreduce_max(tf.constant(max(gaps, default=0)), name="longest_gap"))
        return {"exchanges": number, "mean": round(total / number, 2) if number else None, "max": longest}

    def logits(self, batch: Batch) -> tf.Tensor:
        """See `Trainer`."""
        request = Request.of(self._graphs.read_keys(batch))
        embeddings = self._tables.read(request)
        index = {name: tf.constant(keys.index_n) for name, keys in request.groups.items()}
        return self._graphs.score(batch, embeddings, index)

    def snapshot(self) -> Snapshot:
        """See `Trainer`."""
        self._drain()
        return super().snapshot()

    def _dense_vectors(self) -> dict[str, NDArray[Any]]:
        vectors = super()._dense_vectors()
        if not isinstance(self._sync, Shadow):
            return vectors
        # The moments of a model that is a mean of several are the means of theirs.
        vectors = {
            name: collectives.allreduce_sum(tf.constant(vector), name=f"mean_{name}").numpy() / self.ranks
            for name, vector in vectors.items()
        }
        return vectors | {_WEIGHTS: self._model.numpy()}

    def _rows(self) -> dict[str, RowsSnapshot]:
        return {}

    def save_rows(self, target: Path) -> None:
        """See `Trainer`."""
        if self.rank == 0:
            self._tables.save(target)
        # The servers have copied their rows: they may change.
        collectives.barrier(name="rows_copied")

    def restore(
        self, snapshot: Snapshot | StoredSnapshot, directory: Path | None = None, *, is_base: bool = False
    ) -> None:
        """See `Trainer`."""
        self._restore_dense(snapshot)
        if self.rank == 0 and directory is not None:
            self._tables.load(directory, is_base=is_base)

    def share(self, report: EpochReport) -> None:
        """See `Trainer`."""
        if self._is_in_step:
            return
        own = range(report.num_shared, len(report.step_losses))
        lines = [[index, report.step_examples[index], *report.step_losses[index]] for index in own]
        width = 2 + len(self.ranker.tasks)
        of_all_ranks = collectives.rows(np.array(lines, np.float64).reshape(-1, width), name="steps")
        of_all_ranks = of_all_ranks[np.argsort(of_all_ranks[:, 0], kind="stable")]
        left_out = [report.skipped - report.shared_skipped, report.left_out - report.shared_left_out]
        skipped, examples = collectives.allreduce_sum(tf.constant(left_out, tf.int64), name="left_out").numpy()
        report.skipped = report.shared_skipped = report.shared_skipped + int(skipped)
        report.left_out = report.shared_left_out = report.shared_left_out + int(examples)
        report.step_examples[report.num_shared :] = [int(line[1]) for line in of_all_ranks]
        report.step_losses[report.num_shared :] = of_all_ranks[:, 2:].tolist()
        report.num_shared = len(report.step_losses)

    def _compare(self) -> str:
        """Compares the dense weights of all ranks; returns their digest.

        Raises:
            RuntimeError: they differ.
        """
        digest = hashlib.sha256(self.dense.flat.numpy().tobytes()).hexdigest()
        digests = collectives.texts(digest, name="digests")
        if len(set(digests)) > 1:
            raise RuntimeError(f"training: the ranks' dense weights differ after step {self.step} (got {digests})")
        self._num_compared += 1
        return digest
