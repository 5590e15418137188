"""What the page of a run shows, as plain data."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.reports.curves import Curve
from components.reports.evaluation import Verdict
from components.reports.ingestion import IngestionReport
from components.reports.serving import ServingVerdict


@dataclass(frozen=True)
class Distribution:
    """Shares of a feature's values in both splits.

    Attributes:
        labels: of the bins or values: the lower edges of numbers, the most frequent values of the rest.
        train: share of the train split's values: [labels].
        evaluated: of the evaluation split's: [labels].
        is_number: bins of numbers have an order.
    """

    labels: list[str]
    train: list[float]
    evaluated: list[float]
    is_number: bool


@dataclass(frozen=True)
class FeatureFacts:
    """One column of the examples.

    Attributes:
        name: of the column.
        missing_train: share of the train examples without a value; None without statistics.
        missing_evaluated: of the evaluation examples.
        distribution: None where a split has no values.
    """

    name: str
    missing_train: float | None = None
    missing_evaluated: float | None = None
    distribution: Distribution | None = None

    @property
    def distance(self) -> float:
        """Half the sum of the shares' differences, or the change of the missing share if that is larger."""
        missing = abs((self.missing_evaluated or 0.0) - (self.missing_train or 0.0))
        if self.distribution is None:
            return missing
        pairs = zip(self.distribution.train, self.distribution.evaluated, strict=True)
        return max(missing, sum(abs(before - now) for before, now in pairs) / 2)


@dataclass(frozen=True, order=True)
class DayFacts:
    """The examples of a day (YYYY-MM-DD, empty for logs without days) in a split, and the digest of what made them."""

    day: str
    split: str
    rows: int
    digest: str


@dataclass(frozen=True)
class Facts:
    """What the steps of a run have found. What a run did not reach is None or empty.

    Attributes:
        ingestion: days and rows.
        days: examples of each day, the oldest first.
        features: by column, those that differ most between the splits first.
        drift: every distance that the spec bounds: feature, measure, value, bound, is_within, reason.
        training: `training.json`.
        losses: every step's mean loss by task: [steps, tasks]; None without a training.
        verdict: of the quality gates.
        curves: by binary task.
        serving: of the serving gate.
    """

    ingestion: IngestionReport | None = None
    days: list[DayFacts] = field(default_factory=list)
    features: list[FeatureFacts] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)
    training: dict[str, Any] | None = None
    losses: NDArray[np.float32] | None = None
    verdict: Verdict | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    serving: ServingVerdict | None = None


@dataclass(frozen=True)
class StepFacts:
    """One step of the run: how it ended, what it took, and what it cost in the currency of the run's `cost`."""

    name: str
    state: str
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    cost: float | None = None


@dataclass(frozen=True)
class CostFacts:
    """What the run has cost, by the prices of its spec."""

    currency: str
    total: float
    per_million_examples: float | None
    training_per_billion_samples: float | None


@dataclass(frozen=True)
class PastRun:
    """An earlier run of the same ranker.

    Attributes:
        run: its name.
        date: last day of its evaluation; None for logs without days.
        auc: by task.
        blessed: whether its model was.
    """

    run: str
    date: str | None
    auc: dict[str, float | None]
    blessed: bool


@dataclass(frozen=True)
class Run:
    """What is known of the run itself; on Kubeflow only what its steps know.

    Attributes:
        ranker: name in the spec.
        name: of the run.
        date: last day of the evaluation.
        status: succeeded, failed or stopped.
        blessed: None: nobody judged the model.
        pushed: version; None: not pushed.
        checkpoint: that training left.
        model_sha256: of the exported model's manifest.
        error: why it failed.
        failed_step: where.
        log_tail: last lines of that step's log.
        advice: what to try.
        notes: of the steps, a sentence each.
        steps: in their order.
        seconds: from start to end.
        cost: None: the spec has no prices.
        past: runs of the 30 days before, oldest first.
        spec: as YAML.
        spec_digest: of the whole spec.
        spec_changes: since the run before: path, before, after; None: no run before.
        git_commit: of the code.
        base: checkpoint that training started from.
    """

    ranker: str
    name: str
    date: str | None
    status: str
    blessed: bool | None = None
    pushed: str | None = None
    checkpoint: str | None = None
    model_sha256: str | None = None
    error: str | None = None
    failed_step: str | None = None
    log_tail: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: list[StepFacts] = field(default_factory=list)
    seconds: float | None = None
    cost: CostFacts | None = None
    past: list[PastRun] = field(default_factory=list)
    spec: str = ""
    spec_digest: str = ""
    spec_changes: list[tuple[str, str, str]] | None = None
    git_commit: str | None = None
    base: str | None = None
