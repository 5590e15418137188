"""The data of a run's page."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.reports.curves import Curve
from sangam.components.reports.importance import TaskImportance


@dataclass(frozen=True)
class Distribution:
    """Shares of a feature's values in both splits.

    Attributes:
        labels: labels of the bins or values: the lower edges for numbers, else the most frequent values.
        train: share of the train split's values: [labels].
        evaluated: share of the evaluation split's values: [labels].
        is_number: whether the labels are bins of numbers, in ascending order.
    """

    labels: list[str]
    train: list[float]
    evaluated: list[float]
    is_number: bool


@dataclass(frozen=True)
class FeatureFacts:
    """One column of the examples.

    Attributes:
        name: name of the column.
        missing_train: share of the train examples without a value; None without statistics.
        missing_evaluated: share of the evaluation examples without a value.
        distribution: distribution of the values; None where a split has no values.
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
    """A day's examples in a split (YYYY-MM-DD, empty without days), with the digest of their inputs and code."""

    day: str
    split: str
    rows: int
    digest: str


@dataclass(frozen=True)
class Facts:
    """The outputs of a run's steps for charts. Outputs that a run did not reach are None or empty.

    Attributes:
        days: examples of each day, the oldest first.
        features: facts of the columns, those that differ most between the splits first.
        drift: every distance that the spec bounds: feature, measure, value, bound, is_within, reason.
        training: contents of `training.json`.
        losses: mean loss by step and task: [steps, tasks]; None without a training.
        curves: curves by binary task.
        importances: importances of the columns by task.
    """

    days: list[DayFacts] = field(default_factory=list)
    features: list[FeatureFacts] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)
    training: dict[str, Any] | None = None
    losses: NDArray[np.float32] | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    importances: list[TaskImportance] = field(default_factory=list)


@dataclass(frozen=True)
class PageContext:
    """Data of a run's page, in addition to its record and the outputs of its steps.

    Attributes:
        checkpoint: checkpoint that training wrote.
        model_sha256: sha256 of the exported model's manifest.
        log_tail: last lines of the failed step's log.
    """

    checkpoint: str | None = None
    model_sha256: str | None = None
    log_tail: list[str] = field(default_factory=list)
