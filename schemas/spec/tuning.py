"""The search of `sangam tune`. Nothing here changes the result of a run."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue
from typing_extensions import assert_never

from schemas.spec.base import FrozenModel, Name, PositiveInt
from schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask

SpecPath = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]
"""A path in the spec: keys joined by dots, such as training.dense_optimizer.learning_rate."""


class FloatRange(FrozenModel):
    """A number from `low` to `high`."""

    kind: Literal["float"]
    low: float
    high: float
    log: bool = False
    """Draw the logarithm uniformly, as suits learning rates."""


class IntRange(FrozenModel):
    """A whole number from `low` to `high`, both included."""

    kind: Literal["int"]
    low: int
    high: int
    step: PositiveInt = 1
    log: bool = False
    """See `FloatRange`; not together with a step."""


class Choice(FrozenModel):
    """One of several values, each a whole part of the spec: a number, a string, a list or a mapping."""

    kind: Literal["choice"]
    values: Annotated[tuple[JsonValue, ...], Field(min_length=2)]


Range = Annotated[FloatRange | IntRange | Choice, Field(discriminator="kind")]


class MedianPruning(FrozenModel):
    """A trial ends early when its best epoch so far is worse than the median of what earlier trials had after as many
    epochs (Golovin et al.: Google Vizier, KDD 2017, section 3.2.2)."""

    kind: Literal["median"]
    after_trials: PositiveInt = 5
    """Number of first trials that are never pruned."""
    after_epochs: PositiveInt = 1
    """Number of first epochs of each trial that are not judged."""


class Tuning(FrozenModel):
    """A search by the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), on the validation split."""

    objective: Name | None = None
    """Task whose metric counts: AUC if binary, otherwise RMSE. Left out: the mean AUC of all tasks."""
    trials: PositiveInt = 20
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of the search; every trial trains with training.seed."""
    timeout_s: PositiveInt | None = None
    """No trial starts after this time."""
    pruning: MedianPruning | None = None
    ranges: Annotated[dict[SpecPath, Range], Field(min_length=1)]


def metric_of(task: Task) -> Literal["auc", "rmse"]:
    """Returns a task's metric on the validation split: a larger AUC or a smaller RMSE is better."""
    match task:
        case BinaryTask():
            return "auc"
        case RegressionTask() | WatchTimeTask():
            return "rmse"
        case _:
            assert_never(task)
