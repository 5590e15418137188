"""A ranker in training on one rank: its dense weights, and its state as a snapshot."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module import collectives
from sangam.trainer_module.dense import choice
from sangam.trainer_module.dense.average import Average
from sangam.trainer_module.dense.optimizers import DenseState
from sangam.trainer_module.embedding.persistence import cut_of, snapshot_of
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.input.batch import Batch, empty_batch
from sangam.trainer_module.loop.history import EpochReport
from sangam.trainer_module.loop.learning_rate import StepsOfSchedule
from sangam.trainer_module.loop.step import StepResult, StepState, factor_at
from sangam.trainer_module.losses import Balance
from sangam.trainer_module.monitoring.training import TrainingFacts
from sangam.trainer_module.progress import Progress
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.snapshot import AVERAGE, WEIGHTS, Arrays, Snapshot, StateAtCut, StoredSnapshot

Held = TypeVar("Held")


class Trainer(ABC):
    """A ranker in training. All ranks call the methods marked "All ranks together" at the same time.

    Attributes:
        ranker: the model.
        rank, ranks: this rank, and the number of ranks.
        dense: the dense weights that this rank trains.
        average: their average over steps; None without one.
        next_pause: step after which `checkpointing` writes a checkpoint.
        may_save: whether all ranks are between the same two steps.
        skipped_in_a_row: number of latest steps skipped because losses or gradients were not finite.
    """

    def __init__(
        self, ranker: Ranker, *, rank: int, ranks: int, last_minute: int | None = None, in_proportion: bool = False
    ):
        """Creates a trainer with initial weights and empty tables.

        Args:
            ranker: the model.
            rank: this rank.
            ranks: number of ranks.
            last_minute: upper bound of event times, minutes since 1970, so that one wrong clock in the logs cannot make
                all other rows look old.
            in_proportion: whether a batch that is not full moves the model in proportion, so that examples count
                equally in batches of any size.
        """
        training = ranker.spec.training
        self.ranker, self.rank, self.ranks, self.last_minute = ranker, rank, ranks, last_minute
        average = training.average
        with ranker.placement.dense():
            self.dense = DenseState(training.dense_optimizer, ranker.weights, seed=training.seed)
            self.average = None if average is None else Average(average, self.dense.flat.numpy())
            self.balance = Balance(ranker.spec)
        self.skipped_in_a_row = self.next_pause = 0
        self.may_save = True
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._epoch = tf.Variable(0, dtype=tf.int64, trainable=False, name="epoch")
        self._schedule = StepsOfSchedule()
        self._newest = tf.Variable(0, dtype=tf.int32, trainable=False, name="newest_minute")
        self._state = StepState(
            ranker,
            self.dense,
            self.balance,
            step=self._step,
            schedule=self._schedule,
            newest_minute=self._newest,
            last_minute=last_minute,
            rank=rank,
            epoch=self._epoch,
            average=self.average,
            full_batch=training.batch_size_per_rank * ranks if in_proportion else None,
        )

    @property
    def model(self) -> tf.Variable:
        """The dense weights that are validated, exported and published: [size]."""
        return self.dense.flat if self.average is None else self.average.flat

    @property
    def step(self) -> int:
        """Number of updates so far, equal on all ranks, without skipped steps."""
        return int(self._step)

    @property
    def updates_a_step(self) -> int:
        """Number of updates in one step of the spec's settings: the number of ranks, if each updates by itself."""
        return 1

    @property
    def newest_minute(self) -> int:
        """Newest event trained on by any rank, minutes since 1970; 0 without times. All ranks together."""
        return int(collectives.allreduce_max(self._newest.read_value(), name="newest_minute"))

    def layers(self) -> str:
        """Returns which code computes the layers of a step, and why; empty before a step is traced."""
        return choice.line(self._state.layers, self.ranker.weights.weights)

    def learning_rates(self) -> dict[str, float]:
        """Returns the last step's learning rates: `dense`, and `tables.<table>` for each table's rows."""
        spec = self.ranker.spec
        by = float(factor_at(self._state, tf.maximum(self._step.read_value(), 1)))
        of_tables = {f"tables.{table}": by * spec.optimizer_of(table).learning_rate for table in spec.tables}
        return {"dense": by * spec.training.dense_optimizer.learning_rate, **of_tables}

    @abstractmethod
    def facts(self) -> TrainingFacts:
        """Returns the facts known between two steps of this rank."""

    def begin_epoch(self, epoch: int) -> None:
        """Sets the next epoch."""
        self._epoch.assign(epoch)
        if self.average is not None:
            self.average.begin_epoch(epoch)

    def trace(self) -> None:  # noqa: B027 - only if it is possible before the first batch
        """Traces the graph of a step, unless it is traced."""

    @abstractmethod
    def steps(self, batches: Iterable[Batch]) -> Iterator[StepResult]:
        """Trains on batch after batch until no rank has one left. All ranks together."""

    @abstractmethod
    def evict(self, progress: Progress) -> float:
        """Removes rows by the tables' expiry and capacity; returns the seconds it took. All ranks together."""

    @abstractmethod
    def evict_if_due(self, progress: Progress) -> float:
        """Removes rows as `evict` does, every `evict_every_steps`; returns the seconds it took."""

    @abstractmethod
    def statistics(self) -> dict[str, dict[str, Any]]:
        """Returns statistics by table over all owners of rows, see `embedding.statistics`. All ranks together."""

    def take_refused(self) -> int:
        """Returns the number of steps whose gradients the owners of rows have refused since the last call."""
        return 0

    def exchange_report(self) -> dict[str, Any]:
        """Returns exchange statistics of ranks and servers, for the report. All ranks together."""
        return {"kind": self.ranker.spec.training.sync.kind}

    @abstractmethod
    def logits(self, batch: Batch) -> tf.Tensor:
        """Returns [batch, tasks] without creating rows. All ranks together."""

    @abstractmethod
    def restore(
        self, snapshot: Snapshot | StoredSnapshot, directory: Path | None = None, *, is_base: bool = False
    ) -> None:
        """Loads a snapshot into a new trainer; its rows must be those that this rank owns.

        Weights, moments and groups missing from it keep their initial values. If it lacks the start of the
        learning-rate schedule, the schedule begins at the snapshot's step. All ranks together.

        Args:
            snapshot: this rank's snapshot.
            directory: the checkpoint that it was read from; None: a snapshot of this process.
            is_base: whether the checkpoint is of another training.
        """

    @abstractmethod
    def _rows(self, held: Callable[[RowStore], Held]) -> dict[str, Held]:
        """Returns what `held` returns for this rank's store of each group."""

    def begin_schedule(self, *, step: int, pace: float) -> None:
        """Restarts the schedule of learning rates.

        Args:
            step: the step from which counting continues: checkpoints are named by step, and names must not repeat.
            pace: schedule steps per training step.
        """
        self._step.assign(step)
        self._schedule.begin(step=step, pace=pace)

    @abstractmethod
    def logits_on_host(self, batch: Batch) -> tf.Tensor:
        """Returns `logits` as a server on a CPU computes them."""

    def predict(self, batch: Batch | None) -> dict[str, NDArray[Any]]:
        """Returns {task: [batch, 1]} as an exported model, without creating rows; None is an empty batch.

        On the host: in half precision an accelerator adds up in another order. All ranks together.
        """
        logits_BT = self.logits_on_host(empty_batch(self.ranker.layout) if batch is None else batch)
        return {task: values.numpy() for task, values in self.ranker.predictions(logits_BT).items()}

    def snapshot(self) -> Snapshot:
        """Returns a copy of the state that this rank needs to resume. All ranks together, between steps."""
        dense, extra = self._without_rows()
        return Snapshot(self.step, dense, self._rows(snapshot_of), extra)

    def cut(self) -> StateAtCut:
        """Returns that state without a copy of the rows, to be read while training continues, until it is told to end.

        There is one at a time. All ranks together, between steps.
        """
        dense, extra = self._without_rows()
        return StateAtCut(self.step, dense, self._rows(cut_of), extra)

    def _without_rows(self) -> tuple[Arrays, Arrays]:
        """Returns `dense` and `extra` of a snapshot."""
        dense = {
            f"{kind}/{name}": array.copy()
            for kind, flat in self._dense_vectors().items()
            for name, array in self.ranker.weights.by_name(flat).items()
        }
        extra: Arrays = {
            "newest_minute": np.array([self.newest_minute], np.int32),
            **self._schedule.snapshot(),
            **({} if self.average is None else self.average.snapshot()),
        }
        return dense, extra | self.balance.snapshot()

    def _dense_vectors(self) -> dict[str, NDArray[Any]]:
        """Returns the dense weights and each optimizer moment as checkpoints store them: [size] by name."""
        return {kind: flat.numpy() for kind, flat in self._flats().items()}

    def _flats(self) -> dict[str, tf.Variable]:
        average = {} if self.average is None else {AVERAGE: self.average.flat}
        return {WEIGHTS: self.dense.flat, **self.dense.moments, **average}

    def begin(self) -> None:  # noqa: B027 - ranks that hold the rows have nothing to do
        """Begins training, after the initial state is complete. All ranks together."""

    def close(self) -> None:  # noqa: B027 - a rank in step has no threads
        """Ends the trainer's threads."""

    def share(self, report: EpochReport) -> None:  # noqa: B027 - ranks in step know all steps
        """Adds the steps of all other ranks to an epoch's report. All ranks together."""

    def save_rows(self, target: Path) -> None:  # noqa: B027 - `snapshot` has the ranks' own rows
        """Has other processes write the rows that they hold, after `snapshot`. All ranks together."""

    def _restore_dense(self, snapshot: Snapshot | StoredSnapshot) -> None:
        """Restores everything but the rows."""
        for kind, flat in self._flats().items():
            # An average that the checkpoint lacks starts at the weights, which are restored first.
            arrays = self.ranker.weights.by_name((self.dense.flat if kind == AVERAGE else flat).numpy())
            arrays |= {name: snapshot.dense[f"{kind}/{name}"] for name in arrays if f"{kind}/{name}" in snapshot.dense}
            flat.assign(np.concatenate([arrays[weight.name].ravel() for weight in self.ranker.weights.weights]))
        if self.average is not None:
            self.average.restore(snapshot.extra)
        self.balance.restore(snapshot.extra)
        self._step.assign(snapshot.step)
        self._schedule.restore(snapshot.extra, step=snapshot.step)
        if "newest_minute" in snapshot.extra:
            self._newest.assign(int(snapshot.extra["newest_minute"][0]))
