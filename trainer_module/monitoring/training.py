"""The metrics of a rank, updated where training counts already, so that a scrape only reads values."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sangam.trainer_module.monitoring.endpoint import new_registry
from sangam.trainer_module.monitoring.tables import TableMetrics

Cause = Literal["input", "ranks", "eviction", "checkpoint", "validation"]
"""Reasons for which training waits."""
_CAUSES: tuple[Cause, ...] = ("input", "ranks", "eviction", "checkpoint", "validation")
_STEP_S = (0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 10, 30)
_STALENESS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_ONLINE = {
    "delta": ("sangam_online_delta", "Number of the last delta published."),
    "segment": ("sangam_online_segment", "Number of the last segment trained on."),
    "newest_segment": ("sangam_online_newest_segment", "Number of the newest segment that has arrived."),
    "lag_s": ("sangam_online_lag_seconds", "Event time from what is trained on to what has arrived."),
    "stalled_s": ("sangam_online_stalled_seconds", "Since the last example, while rows arrive; 0 if none waits."),
    "full_at": ("sangam_online_full_version_delta", "Last delta that a full version includes."),
}
_EVERY_S = 1.0
"""Seconds between samples of values that steps do not update."""


@dataclass(frozen=True)
class TrainingFacts:
    """A trainer's values between two steps, cheap to read.

    Attributes:
        learning_rates: learning rates of the last step: `dense`, and `tables.<table>` for each table's rows.
        tables: counts of the rows on this rank, see `embedding.statistics.TableCounts`; empty if servers hold the rows.
        staleness: number of pushes so far by the number of other ranks' updates between pull and push; empty for a rank
            in step.
        refused: number of pushes so far that servers did not apply.
    """

    learning_rates: Mapping[str, float]
    tables: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    staleness: Mapping[int, int] = field(default_factory=dict)
    refused: int = 0


class Metrics:
    """Receives a rank's events; this one ignores them."""

    def batch(self, batch: Mapping[str, Any]) -> None:
        """Counts a batch that this rank received: tensors by name, with equally many examples."""

    def stepped(
        self,
        *,
        examples: float,
        losses: Sequence[float],
        seconds: float,
        is_finite: bool,
        facts: Callable[[], TrainingFacts],
    ) -> None:
        """Counts a step.

        Args:
            examples: this rank's share of the step's examples.
            losses: mean losses by task.
            seconds: time since the previous step, including waits for input and removal of rows.
            is_finite: False if the step was skipped.
            facts: called now and then.
        """

    def stood_still(self, cause: Cause, seconds: float) -> None:
        """Adds time without steps."""

    def began_checkpoint(self) -> None:
        """Counts a checkpoint whose write begins."""

    def gave_up_checkpoints(self, number: int) -> None:
        """Counts checkpoints that were not written."""

    def validated(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Sets the metrics of the validation split: {task: {metric: value}}."""

    def online(self, document: Mapping[str, Any]) -> None:
        """Sets the state of an online training, as in `online.json`."""


class TrainingMetrics(Metrics):
    """The metrics of one rank.

    Attributes:
        registry: registry of the metrics.
    """

    def __init__(self, tasks: Iterable[str], *, clock: Callable[[], float] = time.monotonic):
        """Creates the metrics; all begin at 0.

        Args:
            tasks: the spec's tasks.
            clock: returns seconds.
        """
        self._tasks, self._clock, self._due = tuple(tasks), clock, 0.0
        self.registry = registry = new_registry()
        self._steps = Counter("sangam_trainer_steps", "Steps of this rank.", registry=registry)
        self._skipped = Counter(
            "sangam_trainer_skipped_steps",
            "Steps left out because a loss or a gradient was not finite.",
            registry=registry,
        )
        self._examples = Counter(
            "sangam_trainer_examples",
            "Examples trained on, this rank's share: the sum over the ranks is all of them.",
            registry=registry,
        )
        self._step_s = Histogram(
            "sangam_trainer_step_seconds",
            "Time from one step to the next, without checkpoints and validation.",
            buckets=_STEP_S,
            registry=registry,
        )
        self._still_s = Counter(
            "sangam_trainer_standstill_seconds",
            "Time that this rank waited, by cause: input, ranks (shared memory), eviction, checkpoint, validation.",
            ("cause",),
            registry=registry,
        )
        for cause in _CAUSES:
            self._still_s.labels(cause)
        self._loss = Gauge(
            "sangam_trainer_loss", "Mean loss of the steps of about a second.", ("task",), registry=registry
        )
        self._rate = Gauge(
            "sangam_trainer_learning_rate",
            "Of the last step: of the dense weights (dense), of the rows of each table (tables.NAME).",
            ("weights",),
            registry=registry,
        )
        self._validation = Gauge(
            "sangam_trainer_validation",
            "Metrics on the validation split after the last epoch.",
            ("task", "metric"),
            registry=registry,
        )
        self._tables = TableMetrics(registry)
        self._add_input()
        self._add_checkpoints()
        self._servers: ServerMetrics | None = None
        self._online: OnlineMetrics | None = None
        self._sums, self._num_summed = [0.0] * len(self._tasks), 0

    def _add_input(self) -> None:
        self._batches = Counter(
            "sangam_trainer_input_batches", "Batches that this rank was given.", registry=self.registry
        )
        self._rows = Counter("sangam_trainer_input_rows", "Examples in these.", registry=self.registry)
        self._bytes = Counter(
            "sangam_trainer_input_bytes", "Of their tensors, as they came to this rank.", registry=self.registry
        )

    def _add_checkpoints(self) -> None:
        self._checkpoints = Counter(
            "sangam_trainer_checkpoints", "Checkpoints started, abandoned ones included.", registry=self.registry
        )
        self._given_up = Counter(
            "sangam_trainer_checkpoints_given_up",
            "Checkpoints that the disk did not take in time.",
            registry=self.registry,
        )
        self._saved_at = Gauge(
            "sangam_trainer_checkpoint_timestamp_seconds",
            "Start of the last checkpoint, seconds since 1970; 0: none yet.",
            registry=self.registry,
        )

    def batch(self, batch: Mapping[str, Any]) -> None:
        """See `Metrics`."""
        self._batches.inc()
        self._rows.inc(batch["labels"].shape[0] or 0)
        self._bytes.inc(sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in batch.values()))

    def stepped(
        self,
        *,
        examples: float,
        losses: Sequence[float],
        seconds: float,
        is_finite: bool,
        facts: Callable[[], TrainingFacts],
    ) -> None:
        """See `Metrics`."""
        self._steps.inc()
        self._step_s.observe(seconds)
        if is_finite:
            self._examples.inc(examples)
            self._sums = [total + loss for total, loss in zip(self._sums, losses, strict=True)]
            self._num_summed += 1
        else:
            self._skipped.inc()
        now = self._clock()
        if now >= self._due:
            self._due = now + _EVERY_S
            self._look(facts())

    def _look(self, facts: TrainingFacts) -> None:
        if self._num_summed:
            for task, total in zip(self._tasks, self._sums, strict=True):
                self._loss.labels(task).set(total / self._num_summed)
            self._sums, self._num_summed = [0.0] * len(self._tasks), 0
        for weights, rate in facts.learning_rates.items():
            self._rate.labels(weights).set(rate)
        self._tables.set(facts.tables)
        if facts.staleness and self._servers is None:
            self._servers = ServerMetrics(self.registry)
        if self._servers is not None:
            self._servers.set(facts)

    def stood_still(self, cause: Cause, seconds: float) -> None:
        """See `Metrics`."""
        self._still_s.labels(cause).inc(seconds)

    def began_checkpoint(self) -> None:
        """See `Metrics`."""
        self._checkpoints.inc()
        self._saved_at.set_to_current_time()

    def gave_up_checkpoints(self, number: int) -> None:
        """See `Metrics`."""
        self._given_up.inc(number)

    def validated(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """See `Metrics`."""
        for task, of_task in results.items():
            for metric, value in of_task.items():
                self._validation.labels(task, metric).set(value)

    def online(self, document: Mapping[str, Any]) -> None:
        """See `Metrics`."""
        if self._online is None:
            self._online = OnlineMetrics(self.registry)
        self._online.set(document)


class ServerMetrics:
    """Metrics of a rank with rows on parameter servers. Created with the first value, as ranks in step have none."""

    def __init__(self, registry: CollectorRegistry):
        """Adds the metrics to a registry."""
        self._staleness = Histogram(
            "sangam_trainer_staleness",
            "Updates by others between reading rows and applying their gradients, of each push.",
            buckets=_STALENESS,
            registry=registry,
        )
        self._refused = Counter(
            "sangam_trainer_refused_pushes", "Pushes that parameter servers refused.", registry=registry
        )
        self._counted: dict[int, int] = {}
        self._num_refused = 0

    def set(self, facts: TrainingFacts) -> None:
        """Sets the counts so far; a trainer that replaces another counts from 0."""
        for staleness, times in facts.staleness.items():
            before = self._counted.get(staleness, 0)
            for _ in range(times - before if times >= before else times):
                self._staleness.observe(staleness)
            self._counted[staleness] = times
        more = facts.refused - self._num_refused
        self._refused.inc(more if more >= 0 else facts.refused)
        self._num_refused = facts.refused


class OnlineMetrics:
    """Metrics of an online training, on rank 0. Created with the first value: other trainings would export zeros."""

    def __init__(self, registry: CollectorRegistry):
        """Adds the metrics to a registry."""
        self._gauges = {key: Gauge(name, text, registry=registry) for key, (name, text) in _ONLINE.items()}
        self._held = Gauge("sangam_online_held", "1 while no delta may go out.", registry=registry)
        self._skipped = Gauge("sangam_online_skipped_rows", "Rows left out by lag: skip_to_s.", registry=registry)

    def set(self, document: Mapping[str, Any]) -> None:
        """Sets the values of `online.json`."""
        for key, gauge in self._gauges.items():
            gauge.set(document[key])
        self._held.set(bool(document["held"]))
        self._skipped.set(document["skipped"]["rows"])
