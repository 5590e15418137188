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
from trainer_module.dense.optimizers import clipped
from trainer_module.embedding.sharded_tables import Unique
from trainer_module.embedding.statistics import by_table
from trainer_module.input.batch import Batch, ids_of, then_empty
from trainer_module.loop.history import EpochReport
from trainer_module.loop.step import (
    StepResult,
    event_minutes,
    factor_at,
    local_step,
    newest_minute,
    of_all,
    update_dense,
)
from trainer_module.loop.trainer import Trainer
from trainer_module.parameter_server.ahead import Ahead, Pushed
from trainer_module.parameter_server.averaging import Averaging
from trainer_module.parameter_server.client import Answer, Arrays, Servers
from trainer_module.parameter_server.dense_part import part_of
from trainer_module.parameter_server.routing import Request, RoutedKeys, route
from trainer_module.progress import Progress
from trainer_module.ranker import Ranker
from trainer_module.snapshot import RowsSnapshot, Snapshot, StoredSnapshot

_WEIGHTS = "weights"
_LARGEST_STALENESS = 1024
_LEAST_STEPS_BETWEEN_PAUSES = 20


class _Batch(NamedTuple):
    number: int
    batch: Batch
    request: Request
    newest: int


class ServedTrainer(Trainer):
    """A ranker in training on one rank, its rows on parameter servers."""

    def __init__(self, ranker: Ranker, servers: Servers, *, rank: int, ranks: int, last_minute: int | None = None):
        """See `Trainer`.

        Args:
            ranker: the model.
            servers: hold its rows.
            rank: this one.
            ranks: how many train together.
            last_minute: see `Trainer`.
        """
        super().__init__(ranker, rank=rank, ranks=ranks, last_minute=last_minute)
        sync = ranker.spec.training.sync
        assert isinstance(sync, Served)
        self._sync: Served = sync
        self._servers = servers
        self._wire = tf.float16 if sync.wire == "float16" else tf.float32
        self._number = self._pushed = 0
        self._all_steps, self._paused_at = 0, 0
        self._own_updates = self._updates = self._examples = 0
        self._num_trained_before = 0
        self._staleness: Counter[int] = Counter()
        self._refused = 0
        self._ahead: Ahead | None = None
        self._averaging: Averaging | None = None
        self._digest = ""
        self._average = tf.Variable(self.dense.flat.read_value(), trainable=False, name="average")
        self._scored = self._average if isinstance(sync, Shadow) else self.dense.flat
        self._trace()

    def _trace(self) -> None:
        layout, groups = self.ranker.layout, self.ranker.groups
        batch = layout.batch_spec()
        embeddings = {name: tf.TensorSpec([None, group.dim], self._wire) for name, group in groups.items()}
        index = {name: tf.TensorSpec([None], tf.int32) for name in groups}
        message = tf.TensorSpec([None], tf.float32)

        def function(body: Any, *signature: Any) -> Any:
            return tf.function(body, input_signature=signature, autograph=False)

        self._route = function(self._routed, ids_of(batch))
        self._local = function(self._computed, batch, embeddings, index)
        size = self._local.get_concrete_function().structured_outputs[0].shape
        message = tf.TensorSpec(size, tf.float32)
        self._update = function(self._updated, message)
        self._of_own = function(self._gradient_of_own, message)
        self._read_keys = function(self._routed_to_read, batch)
        self._score = function(self._scores, batch, embeddings, index)

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
        self._ahead = Ahead(self._sync.staleness, pull=self._pull, finish=self._finish, first=self._number)
        if isinstance(self._sync, Shadow):
            self._averaging = self._averaging or Averaging(self._servers, self._sync, self.dense.flat)
        yield from self._steps_together(batches) if self._is_in_step else self._steps_alone(batches)
        ahead, self._ahead = self._ahead, None
        in_vain = ahead.close()
        for pushed in ahead.results():
            self._note(pushed)
        for number in in_vain:
            self._finish(number, self._skip(number))
        self._number = ahead.next_number
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
        while True:
            self._offer(source, waiting)
            if not waiting:
                break
            trained = self._train(waiting.popleft())
            if self._averaging is not None:
                self._averaging.after_step()
            if self._updates >= self._pause_after:
                self._pause(is_finished=False)
            yield trained
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
            routed, newest = self._route(ids_of(batch))
            waiting.append(_Batch(self._number, batch, Request.of(routed), int(newest)))
            self._ahead.offer(self._number, waiting[-1].request)
            self._number += 1

    def _train(self, batch: _Batch) -> StepResult:
        assert self._ahead is not None
        answers = self._ahead.take(batch.number)
        embeddings, dense = self._embeddings(answers)
        if dense is not None:
            self.dense.flat.assign(dense)
        index = {name: tf.constant(keys.index_n) for name, keys in batch.request.groups.items()}
        message, gradients, scales = self._local(batch.batch, embeddings, index)
        own_dense: NDArray[Any] | None = None
        if isinstance(self._sync, Async):
            result, scale, factor, step, gradient = self._of_own(message)
            own_dense = gradient.numpy()
        else:
            if self._is_in_step and self.ranks > 1:
                message = tf.constant(self._servers.sum_spread(message.numpy(), "dense"))
            result, scale, factor, step = self._update(message)
        if not bool(result.is_finite) or float(result.count) == 0.0:
            begun = self._skip(batch.number)
        else:
            context = [
                np.array([int(step), batch.newest, 0], np.int64),
                np.array([float(scale), float(factor)], np.float32),
                scales.numpy(),
            ]
            arrays = {name: tensor.numpy() for name, tensor in gradients.items()}
            begun = [
                server.begin(
                    "push",
                    [
                        *context,
                        *(array[batch.request.rows(name, server.number)] for name, array in arrays.items()),
                        *([] if own_dense is None else [own_dense[self._part(server.number)]]),
                    ],
                    sequence=batch.number,
                )
                for server in self._servers.all
            ]
        self._ahead.push(batch.number, begun)
        self._pushed = batch.number + 1
        for pushed in self._ahead.results():
            self._note(pushed)
        return result

    def _skip(self, number: int) -> list[Answer]:
        """Tells the servers that a batch that was pulled is not trained on."""
        skipped = [np.array([0, 0, 1], np.int64)]
        return [server.begin("push", skipped, sequence=number) for server in self._servers.all]

    def _note(self, pushed: Pushed) -> None:
        self._updates = max(self._updates, pushed.updates)
        self._examples = max(self._examples, pushed.examples)
        if pushed.is_finite:
            self._own_updates += 1
            self._staleness[min(pushed.staleness, _LARGEST_STALENESS - 1)] += 1

    def _pull(self, number: int, request: Request) -> Sequence[Answer]:
        step = np.array([int(self._state.step) + 1], np.int64)
        groups = self.ranker.groups
        return [
            server.begin(
                "pull",
                [step, *request.keys(server.number), *request.counted(server.number, groups)],
                sequence=number,
            )
            for server in self._servers.all
        ]

    def _finish(self, number: int, answers: Sequence[Answer]) -> Pushed:
        """Waits until all servers have carried out a push."""
        del number
        told = []
        for answer in answers:
            numbers = answer.result()[0]
            while not numbers[0]:  # Other ranks have not pushed yet.
                numbers = answer.again().result()[0]
            told.append([int(each) for each in numbers[1:]])
        finite, staleness, updates, examples = zip(*told, strict=True)
        return Pushed(all(finite), max(staleness), updates[0], examples[0])

    def _embeddings(self, answers: Sequence[Arrays]) -> tuple[dict[str, tf.Tensor], NDArray[Any] | None]:
        """Returns the embeddings in the order of `Request`, and the dense weights where servers hold them."""
        groups = list(self.ranker.groups)
        parts = [answer[1:] for answer in answers]
        embeddings = {name: tf.constant(_joined([part[index] for part in parts])) for index, name in enumerate(groups)}
        has_dense = len(parts[0]) > len(groups)
        return embeddings, _joined([part[-1] for part in parts]) if has_dense else None

    def _part(self, server: int) -> slice:
        return part_of(self.ranker.weights.size, server, len(self._servers))

    # Functions of graphs.

    def _routed(self, ids: Batch) -> tuple[dict[str, RoutedKeys], tf.Tensor]:
        minutes = event_minutes(self._state, ids)
        routed = route(self.ranker.groups, self.ranker.keys(ids), minutes, len(self._servers))
        return routed, tf.maximum(newest_minute(self._state, ids), 0)

    def _routed_to_read(self, batch: Batch) -> dict[str, RoutedKeys]:
        return route(self.ranker.groups, self.ranker.keys(self.ranker.serving(batch)), {}, len(self._servers))

    def _unique(self, embeddings: Any, index: Any) -> dict[str, Unique]:
        return {name: Unique(tf.cast(embeddings[name], tf.float32), index[name]) for name in self.ranker.groups}

    def _computed(self, batch: Batch, embeddings: Any, index: Any) -> tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]:
        local = local_step(self._state, batch, self._unique(embeddings, index))
        if self._wire == tf.float32:
            return local.message, local.rows, tf.ones([len(local.rows)])
        scaled, scales = {}, []
        for name, gradient in local.rows.items():
            scaled[name], scale = half_of(gradient)
            scales.append(scale)
        return local.message, scaled, tf.stack(scales) if scales else tf.ones([0])

    def _updated(self, message: tf.Tensor) -> tuple[StepResult, tf.Tensor, tf.Tensor, tf.Tensor]:
        summed = of_all(self._state, message)
        is_due = summed.result.is_finite & (summed.result.count > 0.0)
        step = tf.cond(is_due, lambda: tf.identity(update_dense(self._state, summed).step), self._state.step.read_value)
        factor = tf.convert_to_tensor(factor_at(self._state, step), tf.float32)
        return summed.result, summed.scale, factor, step

    def _gradient_of_own(self, message: tf.Tensor) -> tuple[StepResult, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        summed = of_all(self._state, message)
        step = self._state.step.assign_add(tf.cast(summed.result.is_finite, tf.int64))
        factor = tf.convert_to_tensor(factor_at(self._state, step), tf.float32)
        gradient = clipped(summed.dense, self.ranker.spec.training.clip_gradient_norm) * summed.result.count
        return summed.result, summed.scale, factor, tf.identity(step), gradient

    def _scores(self, batch: Batch, embeddings: Any, index: Any) -> tf.Tensor:
        batch = self.ranker.serving(batch)
        unique = self._unique(embeddings, index)
        rows = {name: tf.gather(of_group.embeddings_uD, of_group.index_n) for name, of_group in unique.items()}
        return self.ranker.logits(self.ranker.weights.unpack(self._scored), batch, rows)

    # What all ranks do together.

    @property
    def _pause_after(self) -> int:
        """Updates in this attempt after which the ranks stop, equal on all of them."""
        due = (self.next_pause - self._num_trained_before) * self.ranks
        return max(due, self._paused_at + _LEAST_STEPS_BETWEEN_PAUSES * self.ranks)

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
        if isinstance(self._sync, Shadow):
            self._average.assign(self._served_vectors()[_WEIGHTS])
        elif isinstance(self._sync, Async):
            for name, vector in self._served_vectors().items():
                self._flats()[name].assign(vector)
        # Nobody trains on before all have read.
        collectives.barrier(name="read_model")

    def _served_vectors(self) -> dict[str, NDArray[Any]]:
        """Returns the dense vectors that servers hold, whole: [size] by name."""
        answers = self._servers.ask("dense", {})
        names = answers[0][0]["dense"]
        return {name: np.concatenate([arrays[i] for _, arrays in answers]) for i, name in enumerate(names)}

    def begin(self) -> None:
        """See `Trainer`."""
        self._average.assign(self.dense.flat)
        self._num_trained_before = self._all_steps = int(self._state.step)
        if self.rank == 0:
            vectors = {name: flat.numpy() for name, flat in self._flats().items()}
            document = {
                "step": int(self._state.step) * self.updates_a_step,
                "newest": max(int(self._newest), 0),
                "dense": list(vectors),
            }
            self._servers.tell_parts("begin", document, list(vectors.values()))
        collectives.barrier(name="servers_begun")

    def evict(self, progress: Progress) -> float:
        """See `Trainer`."""
        started = time.monotonic()
        with progress.beating():
            if self.rank == 0 and any(group.counts_occurrences for group in self.ranker.groups.values()):
                self._servers.ask("evict", {})
            collectives.barrier(name="evicted")
        return time.monotonic() - started

    def statistics(self) -> dict[str, dict[str, Any]]:
        """See `Trainer`."""
        answers = self._servers.ask("statistics", {})
        groups = self.ranker.groups
        counts = {name: np.stack([arrays[i] for _, arrays in answers]) for i, name in enumerate(groups)}
        return by_table(groups, counts)

    def logits(self, batch: Batch) -> tf.Tensor:
        """See `Trainer`."""
        request = Request.of(self._read_keys(batch))
        begun = [server.begin("read", request.keys(server.number)) for server in self._servers.all]
        parts = [answer.result() for answer in begun]
        groups = enumerate(self.ranker.groups)
        embeddings = {name: tf.constant(_joined([part[i] for part in parts])) for i, name in groups}
        index = {name: tf.constant(keys.index_n) for name, keys in request.groups.items()}
        return self._score(batch, embeddings, index)

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
        return vectors | {_WEIGHTS: self._average.numpy()}

    def _rows(self) -> dict[str, RowsSnapshot]:
        return {}

    def save_rows(self, target: Path) -> None:
        """See `Trainer`."""
        if self.rank == 0:
            self._servers.ask("save", {"target": str(target)})
        # The servers have copied their rows: they may change.
        collectives.barrier(name="rows_copied")

    def restore(
        self, snapshot: Snapshot | StoredSnapshot, directory: Path | None = None, *, is_base: bool = False
    ) -> None:
        """See `Trainer`."""
        self._restore_dense(snapshot)
        if self.rank == 0 and directory is not None:
            self._servers.ask("load", {"directory": str(directory), "is_base": is_base})

    def share(self, report: EpochReport) -> None:
        """See `Trainer`."""
        if self._is_in_step:
            return
        own = range(report.num_shared, len(report.step_losses))
        lines = [[index, report.step_examples[index], *report.step_losses[index]] for index in own]
        width = 2 + len(self.ranker.tasks)
        of_all_ranks = collectives.rows(np.array(lines, np.float64).reshape(-1, width), name="steps")
        of_all_ranks = of_all_ranks[np.argsort(of_all_ranks[:, 0], kind="stable")]
        report.step_examples[report.num_shared :] = [int(line[1]) for line in of_all_ranks]
        report.step_losses[report.num_shared :] = of_all_ranks[:, 2:].tolist()
        report.num_shared = len(report.step_losses)

    def _compare(self) -> None:
        """Compares the dense weights of all ranks.

        Raises:
            RuntimeError: they differ.
        """
        digest = hashlib.sha256(self.dense.flat.numpy().tobytes()).hexdigest()
        digests = collectives.texts(digest, name="digests")
        if len(set(digests)) > 1:
            raise RuntimeError(f"training: the ranks' dense weights differ after step {self.step} (got {digests})")
        self._digest = digest


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def half_of(gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a gradient as float16, and what to multiply it by again.

    It is scaled by a power of two so that its largest number is near the top of float16's range: none overflows, and
    the error of each is at most 2^-11 of itself, or 2^-39 of the largest. Not finite stays not finite.
    """
    largest = tf.reduce_max(tf.abs(gradient), initial=0.0)
    is_scalable = tf.math.is_finite(largest) & (largest > 0.0)
    exponent = tf.floor(tf.math.log(tf.where(is_scalable, largest, 1.0)) / np.log(2.0))
    factor = tf.pow(2.0, tf.clip_by_value(14.0 - exponent, -100.0, 100.0))
    return tf.cast(gradient * factor, tf.float16), 1.0 / factor
