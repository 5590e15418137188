"""The search of `sangam tune`. It does not change the result of a run."""

from typing import Annotated, Literal, assert_never

from pydantic import Field, JsonValue

from sangam.schemas.parts.base import FrozenModel, Name, PositiveFloat, PositiveInt
from sangam.schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask

SpecPath = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]
"""A path in the spec: keys joined by dots, such as training.dense_optimizer.learning_rate."""


class FloatRange(FrozenModel):
    """A number from `low` to `high`."""

    kind: Literal["float"]
    low: float
    """Lowest value."""
    high: float
    """Highest value."""
    log: bool = False
    """Whether the logarithm is drawn uniformly, as for learning rates."""


class IntRange(FrozenModel):
    """A whole number from `low` to `high`, both included."""

    kind: Literal["int"]
    low: int
    """Lowest value."""
    high: int
    """Highest value."""
    step: PositiveInt = 1
    """Distance between two values; not with `log`."""
    log: bool = False
    """Whether the logarithm is drawn uniformly, as for learning rates."""


class Choice(FrozenModel):
    """One of several values; each is a complete part of the spec: a number, a string, a list or a mapping."""

    kind: Literal["choice"]
    values: Annotated[tuple[JsonValue, ...], Field(min_length=2)]
    """Values to choose from."""


Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_+ .-]*$")]


class Together(FrozenModel):
    """One of several named sets of values that belong together."""

    kind: Literal["together"]
    values: Annotated[dict[Label, dict[SpecPath, JsonValue]], Field(min_length=2)]
    """Sets, by name; each maps paths in the spec to values. An empty set leaves the spec unchanged."""


Range = Annotated[FloatRange | IntRange | Choice | Together, Field(discriminator="kind")]


class MedianPruning(FrozenModel):
    """A trial ends early if its best epoch so far is worse than the median of earlier trials after as many epochs
    (Golovin et al.: Google Vizier, KDD 2017, section 3.2.2)."""

    kind: Literal["median"]
    after_trials: PositiveInt = 5
    """Number of first trials that are never pruned."""
    after_epochs: PositiveInt = 1
    """Number of first epochs of each trial that are not judged."""


class SuccessiveHalving(FrozenModel):
    """After `first_epochs` epochs, and after every `factor` times as many, a trial ends unless it is among the best
    1/factor of the trials with as many epochs (Li et al.: A system for massively parallel hyperparameter tuning, MLSys
    2020, algorithm 2)."""

    kind: Literal["successive_halving"]
    factor: Annotated[int, Field(ge=2, le=10)] = 3
    """Ratio of trials before and after each round, and of epochs after and before it."""
    first_epochs: PositiveInt = 1
    """Number of epochs before the first round."""


Pruning = Annotated[MedianPruning | SuccessiveHalving, Field(discriminator="kind")]


class Tuning(FrozenModel):
    """A search by the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), on the validation split.

    `tune: auto` is short for `{auto: true}`.
    """

    auto: bool = False
    """Whether ranges are derived from the spec (docs/tuning.md); those in `ranges` take precedence."""
    objective: Name | None = None
    """Task whose metric counts: AUC if binary, otherwise RMSE. Left out: the mean AUC of all tasks."""
    trials: PositiveInt | None = None
    """Number of trials. Left out: as many as `minutes` allows, or 20 without it."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of the search; every trial trains with `training.seed`."""
    minutes: PositiveFloat | None = None
    """Time limit of the search, in minutes. Trials that it interrupts count with their best epoch so far. Left out: no
    limit, or 60 with `auto` and without `trials`."""
    pruning: Pruning | None = None
    """Rule that ends bad trials early. Left out: none, or successive halving with `auto`."""
    ranges: dict[SpecPath, Range] = Field(default_factory=dict)
    """Ranges, by the path of their key in the spec; those of kind `together` by any name."""


def metric_of(task: Task) -> Literal["auc", "rmse"]:
    """Returns a task's metric on the validation split: a larger AUC or a smaller RMSE is better."""
    match task:
        case BinaryTask():
            return "auc"
        case RegressionTask() | WatchTimeTask():
            return "rmse"
        case _:
            assert_never(task)
