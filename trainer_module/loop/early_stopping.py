"""When training ends, and which state of the model is kept: a pure function of the scores so far."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.tasks import BinaryTask

Validation = Mapping[str, Mapping[str, float]]
"""{task: {metric: value}} on the validation split."""


class Point(NamedTuple):
    """A moment of training at which the validation split, or a sample of it, was scored.

    Attributes:
        epoch: the epoch, from 0.
        steps: steps of that epoch before it, without skipped ones.
        examples: examples of that epoch before it.
        is_end: whether the epoch ended with it.
        validation: the scores.
    """

    epoch: int
    steps: int
    examples: int
    is_end: bool
    validation: Validation


@dataclass(frozen=True)
class StopDecision:
    """The decision after the scores so far.

    Attributes:
        metric: the decisive metric, `<task>.auc`, `<task>.rmse` or `mean auc`.
        points: the moments of the scores.
        values: the metric at each.
        best: index of the best point.
        reason: reason to end training after these points; None: continue.
    """

    metric: str
    points: tuple[Point, ...]
    values: tuple[float, ...]
    best: int
    reason: str | None

    @property
    def best_point(self) -> Point:
        """The point whose model is kept."""
        return self.points[self.best]

    @property
    def best_epoch(self) -> int:
        """The best point's epoch, from 0."""
        return self.best_point.epoch

    @property
    def last_is_best(self) -> bool:
        """Whether the latest point is the best."""
        return self.best == len(self.values) - 1

    def document(self) -> dict[str, Any]:
        """Returns its part of the training report."""
        return {
            "metric": self.metric,
            "best_epoch": self.best_epoch,
            "best_step": self.best_point.steps,
            "is_within_epoch": not self.best_point.is_end,
            "best": self.values[self.best],
            "values": list(self.values),
            "points": [{"epoch": point.epoch, "step": point.steps} for point in self.points],
            "reason": self.reason,
        }


def judge(spec: RankerSpec, points: Sequence[Point]) -> StopDecision | None:
    """Returns the decision after the scores so far, one at least; None without early stopping.

    Raises:
        UserError: the metric is undefined on the validation split.
    """
    stopping = spec.training.early_stopping
    if stopping is None:
        return None
    metric, sign, tasks = _metric(spec)
    # Labels do not change from point to point: a task without both classes lacks them in every point.
    defined = [task for task in tasks if math.isfinite(points[0].validation[task][metric])]
    name = f"{stopping.task}.{metric}" if stopping.task else f"mean {metric}"
    if defined and len(defined) < len(tasks):
        name, tasks = f"mean {metric} of {', '.join(defined)}", defined
    values = [sum(point.validation[task][metric] for task in tasks) / len(tasks) for point in points]
    if not all(map(math.isfinite, values)):
        raise UserError(
            f"training.early_stopping: the validation split gives no {name} (got {values[-1]}); "
            "it needs labels, of a binary task both positives and negatives"
        )
    best = 0
    for index, value in enumerate(values):
        if sign * (value - values[best]) > stopping.min_change:
            best = index
    waited, epochs, last = len(values) - 1 - best, spec.training.epochs, points[-1]
    reason = None
    if waited >= stopping.patience:
        reason = f"not better for {waited} {'epochs' if stopping.per_epoch == 1 else 'scores'}"
    elif last.is_end and last.epoch == epochs - 1:
        reason = f"all {epochs} epochs were trained"
    return StopDecision(name, tuple(points), tuple(values), best, reason)


def is_due(per_epoch: int, *, epoch: int, steps: int, scored: int, of_epoch: int) -> bool:
    """Says whether to score the model within an epoch; its end is scored anyway.

    Args:
        per_epoch: scores in an epoch after the first.
        epoch: the epoch, from 0.
        steps: steps of the epoch so far.
        scored: steps of the epoch before its last score; 0: none.
        of_epoch: steps of a whole epoch.
    """
    return epoch > 0 and steps > scored and steps in {of_epoch * part // per_epoch for part in range(1, per_epoch)}


def passes_of(best: Point, of_epoch: int) -> list[float]:
    """Returns the passes of a refit over its days, a part of one first: the newest days are learned from last.

    Args:
        best: the point whose model is refitted.
        of_epoch: examples of a whole epoch.
    """
    part = 1.0 if best.is_end else best.examples / of_epoch
    return [part, *[1.0] * best.epoch]


def _metric(spec: RankerSpec) -> tuple[str, int, list[str]]:
    """Returns the metric, its sign (1: larger is better; -1: smaller), and the tasks that it averages."""
    stopping = spec.training.early_stopping
    if stopping is not None and stopping.task is not None:
        is_binary = isinstance(spec.tasks[stopping.task], BinaryTask)
        return ("auc", 1, [stopping.task]) if is_binary else ("rmse", -1, [stopping.task])
    return "auc", 1, [name for name, task in spec.tasks.items() if isinstance(task, BinaryTask)]
