"""The search of `sangam tune`. Nothing here changes the result of a run."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue
from typing_extensions import assert_never

from schemas.spec.base import FrozenModel, Name, PositiveFloat, PositiveInt
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


Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_+ .-]*$")]


class Together(FrozenModel):
    """One of several named sets of values that belong together, each by its path in the spec."""

    kind: Literal["together"]
    values: Annotated[dict[Label, dict[SpecPath, JsonValue]], Field(min_length=2)]
    """A set without values leaves the spec as it is."""


Range = Annotated[FloatRange | IntRange | Choice | Together, Field(discriminator="kind")]


class MedianPruning(FrozenModel):
    """A trial ends early when its best epoch so far is worse than the median of what earlier trials had after as many
    epochs (Golovin et al.: Google Vizier, KDD 2017, section 3.2.2)."""

    kind: Literal["median"]
    after_trials: PositiveInt = 5
    """Number of first trials that are never pruned."""
    after_epochs: PositiveInt = 1
    """Number of first epochs of each trial that are not judged."""


class SuccessiveHalving(FrozenModel):
    """After `first_epochs` epochs, and after every `factor` times as many, a trial ends unless it is among the best
    1/factor of those that came as far (Li et al.: A system for massively parallel hyperparameter tuning, MLSys 2020,
    algorithm 2)."""

    kind: Literal["successive_halving"]
    factor: Annotated[int, Field(ge=2, le=10)] = 3
    first_epochs: PositiveInt = 1


Pruning = Annotated[MedianPruning | SuccessiveHalving, Field(discriminator="kind")]


class Tuning(FrozenModel):
    """A search by the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), on the validation split.

    `tune: auto` is short for `{auto: true}`.
    """

    auto: bool = False
    """Search the ranges that `schemas/derived/search.py` prepares from the spec, and those of `ranges` instead of its
    own where both have one."""
    objective: Name | None = None
    """Task whose metric counts: AUC if binary, otherwise RMSE. Left out: the mean AUC of all tasks."""
    trials: PositiveInt | None = None
    """Left out: as many as there is time for, or 20 without `minutes`."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of the search; every trial trains with training.seed."""
    minutes: PositiveFloat | None = None
    """The search ends after this time: trials under way are ended, and count by their best epoch so far. Left out: no
    limit; with `auto` and without `trials` 60 minutes."""
    pruning: Pruning | None = None
    """Left out: no trial ends early; with `auto` successive halving."""
    ranges: dict[SpecPath, Range] = Field(default_factory=dict)
    """By path in the spec; those of kind `together` by any name."""


def metric_of(task: Task) -> Literal["auc", "rmse"]:
    """Returns a task's metric on the validation split: a larger AUC or a smaller RMSE is better."""
    match task:
        case BinaryTask():
            return "auc"
        case RegressionTask() | WatchTimeTask():
            return "rmse"
        case _:
            assert_never(task)
