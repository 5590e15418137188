"""What `sangam tune` searches over. Nothing here changes what a run makes."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue
from typing_extensions import assert_never

from schemas.spec.base import FrozenModel, Name, PositiveInt
from schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask

SpecPath = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]
"""A place in the spec: keys joined by dots, such as training.dense_optimizer.learning_rate."""


class FloatRange(FrozenModel):
    """A number from `low` to `high`."""

    kind: Literal["float"]
    low: float
    high: float
    log: bool = False
    """Drawn evenly by factors instead of differences, as suits learning rates."""


class IntRange(FrozenModel):
    """A whole number from `low` to `high`, both included."""

    kind: Literal["int"]
    low: int
    high: int
    step: PositiveInt = 1
    log: bool = False
    """See `FloatRange`; not together with a step."""


class Choice(FrozenModel):
    """One of several values, each a whole part of the spec: a number, a word, a list or a mapping."""

    kind: Literal["choice"]
    values: Annotated[tuple[JsonValue, ...], Field(min_length=2)]


Range = Annotated[FloatRange | IntRange | Choice, Field(discriminator="kind")]


class MedianPruning(FrozenModel):
    """A trial ends early when its best epoch so far is worse than the median of what earlier trials had after as many
    epochs (Golovin et al.: Google Vizier, KDD 2017, section 3.2.2)."""

    kind: Literal["median"]
    after_trials: PositiveInt = 5
    """So many trials run to their end in any case."""
    after_epochs: PositiveInt = 1
    """So many epochs of each trial are not judged."""


class Tuning(FrozenModel):
    """A search by the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), on the validation split."""

    objective: Name | None = None
    """The task whose metric counts: AUC of a binary task, RMSE of another. The mean of all tasks' AUC when left out."""
    trials: PositiveInt = 20
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Of the search; every trial trains with training.seed."""
    timeout_s: PositiveInt | None = None
    """After so long no further trial begins."""
    pruning: MedianPruning | None = None
    ranges: Annotated[dict[SpecPath, Range], Field(min_length=1)]


def metric_of(task: Task) -> Literal["auc", "rmse"]:
    """Returns the metric of the validation split that a task is compared by: the larger AUC, the smaller RMSE."""
    match task:
        case BinaryTask():
            return "auc"
        case RegressionTask() | WatchTimeTask():
            return "rmse"
        case _:
            assert_never(task)
