"""The trials of a search, read from Optuna's study."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import optuna

from sangam.schemas.spec import Spec
from sangam.schemas.spec.tuning import metric_of

State = Literal["done", "pruned", "failed", "unfinished"]
Validation = Mapping[str, Mapping[str, float]]
"""{task: {metric: value}} of the validation split after an epoch."""

VALUES, VALIDATION, EPOCH, SECONDS, STARTS, REASON = "values", "validation", "epoch", "seconds", "starts", "reason"
"""User attributes of Optuna's trials."""
IS_SPEC = "is_spec"

_STATES: dict[optuna.trial.TrialState, State] = {
    optuna.trial.TrialState.COMPLETE: "done",
    optuna.trial.TrialState.PRUNED: "pruned",
    optuna.trial.TrialState.FAIL: "failed",
    optuna.trial.TrialState.RUNNING: "unfinished",
}


@dataclass(frozen=True)
class Objective:
    """The objective of a search: the metric of a task, or its mean over several tasks."""

    tasks: tuple[str, ...]
    metric: Literal["auc", "rmse"]

    @property
    def is_larger_better(self) -> bool:
        """Whether the best trial has the largest value."""
        return self.metric == "auc"

    @property
    def name(self) -> str:
        """Name to print."""
        return f"{self.tasks[0]} {self.metric}" if len(self.tasks) == 1 else f"mean {self.metric}"

    def value(self, validation: Validation) -> float:
        """Returns the value of an epoch; NaN where a task's metric is undefined."""
        return math.fsum(validation[task][self.metric] for task in self.tasks) / len(self.tasks)


def objective_of(spec: Spec) -> Objective:
    """Returns the objective of a spec's search."""
    assert spec.tune
    tasks = (spec.tune.objective,) if spec.tune.objective else tuple(spec.tasks)
    return Objective(tasks, metric_of(spec.tasks[tasks[0]]))


@dataclass(frozen=True)
class Trial:
    """One trial.

    Attributes:
        number: index from 0, in the order of the trials' starts.
        state: `done`; `pruned`, ended early as unpromising; `failed`; `unfinished`, running or interrupted with the
            search.
        values: the values it tries, by path in the spec.
        objective: its value; for a pruned trial, after its last epoch; None if there is none.
        validation: every task's metrics, of the same epoch.
        epoch: the epoch of the model, counted from 1.
        seconds: duration since the last start.
        starts: more than one after interruptions.
        reason: why it failed.
        is_spec: it tries the spec unchanged.
    """

    number: int
    state: State
    values: Mapping[str, Any]
    objective: float | None = None
    validation: Validation = field(default_factory=dict)
    epoch: int | None = None
    seconds: float | None = None
    starts: int = 0
    reason: str = ""
    is_spec: bool = False


def trials_of(study: optuna.Study) -> list[Trial]:
    """Returns the trials that have begun, in order."""
    return [_trial(found) for found in study.get_trials(deepcopy=False) if found.state in _STATES]


def _trial(found: optuna.trial.FrozenTrial) -> Trial:
    known = found.user_attrs
    state = _STATES[found.state]
    return Trial(
        number=found.number,
        state=state,
        values=known.get(VALUES, {}),
        objective=found.value if state in ("done", "pruned") else None,
        validation=known.get(VALIDATION, {}),
        epoch=known.get(EPOCH),
        seconds=known.get(SECONDS),
        starts=known.get(STARTS, 0),
        reason=known.get(REASON, ""),
        is_spec=known.get(IS_SPEC, False),
    )


def best_of(trials: Sequence[Trial], objective: Objective) -> Trial | None:
    """Returns the best `done` trial, the first of equals; None without one."""
    done = [trial for trial in trials if trial.state == "done"]
    return ranked(done, objective)[0] if done else None


def ranked(trials: Sequence[Trial], objective: Objective) -> list[Trial]:
    """Returns trials by state: done, pruned, others; within each, best first."""
    order: list[State] = ["done", "pruned", "failed", "unfinished"]
    sign = -1.0 if objective.is_larger_better else 1.0
    return sorted(trials, key=lambda trial: (order.index(trial.state), sign * (trial.objective or 0.0), trial.number))
