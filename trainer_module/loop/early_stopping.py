"""When training ends, and which epoch's model is kept: a pure function of the metrics after each epoch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.tasks import BinaryTask

Validation = Mapping[str, Mapping[str, float]]
"""{task: {metric: value}} after an epoch."""


@dataclass(frozen=True)
class StopDecision:
    """The decision after the epochs so far.

    Attributes:
        metric: the decisive metric, `<task>.auc`, `<task>.rmse` or `mean auc`.
        values: its value after each epoch.
        best_epoch: index of the best epoch, from 0.
        reason: reason to end training after these epochs; None: continue.
    """

    metric: str
    values: tuple[float, ...]
    best_epoch: int
    reason: str | None

    @property
    def last_is_best(self) -> bool:
        """Whether the latest epoch is the best."""
        return self.best_epoch == len(self.values) - 1

    def document(self) -> dict[str, Any]:
        """Returns its part of the training report."""
        return {
            "metric": self.metric,
            "best_epoch": self.best_epoch,
            "best": self.values[self.best_epoch],
            "values": list(self.values),
            "reason": self.reason,
        }


def judge(spec: RankerSpec, validations: Sequence[Validation]) -> StopDecision | None:
    """Returns the decision after the epochs so far; None without early stopping.

    Raises:
        UserError: there is no validation split, or the metric is undefined on it.
    """
    stopping = spec.training.early_stopping
    if stopping is None:
        return None
    if not all(validations):
        raise UserError(
            "training.early_stopping: there is no validation split (got no examples of it); "
            "declare data.splits.validation or data.validation_days"
        )
    metric, sign, tasks = _metric(spec)
    # Labels do not change from epoch to epoch: a task without both classes lacks them in every epoch.
    defined = [task for task in tasks if all(math.isfinite(first[task][metric]) for first in validations[:1])]
    name = f"{stopping.task}.{metric}" if stopping.task else f"mean {metric}"
    if defined and len(defined) < len(tasks):
        name, tasks = f"mean {metric} of {', '.join(defined)}", defined
    values = [sum(validation[task][metric] for task in tasks) / len(tasks) for validation in validations]
    if not all(map(math.isfinite, values)):
        raise UserError(
            f"training.early_stopping: the validation split gives no {name} (got {values[-1]}); "
            "it needs labels, of a binary task both positives and negatives"
        )
    best = 0
    for epoch, value in enumerate(values):
        if sign * (value - values[best]) > stopping.min_change:
            best = epoch
    waited, epochs = len(values) - 1 - best, spec.training.epochs
    reason = None
    if waited >= stopping.patience:
        reason = f"not better for {waited} epochs"
    elif len(values) == epochs:
        reason = f"all {epochs} epochs were trained"
    return StopDecision(name, tuple(values), best, reason)


def _metric(spec: RankerSpec) -> tuple[str, int, list[str]]:
    """Returns the metric, its sign (1: larger is better; -1: smaller), and the tasks that it averages."""
    stopping = spec.training.early_stopping
    if stopping is not None and stopping.task is not None:
        is_binary = isinstance(spec.tasks[stopping.task], BinaryTask)
        return ("auc", 1, [stopping.task]) if is_binary else ("rmse", -1, [stopping.task])
    return "auc", 1, [name for name, task in spec.tasks.items() if isinstance(task, BinaryTask)]
