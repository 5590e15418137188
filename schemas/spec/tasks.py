"""Tasks: what is predicted, and the loss to minimize."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import ColumnName, FrozenModel, PositiveFloat
from schemas.spec.optimizers import NonNegativeFloat


class CrossEntropy(FrozenModel):
    """Sigmoid cross-entropy."""

    kind: Literal["cross_entropy"]
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """s: y becomes y (1 - s) + s / 2 (Szegedy et al., CVPR 2016, section 7)."""


class Focal(FrozenModel):
    """-alpha_t (1 - p_t)^gamma log p_t (Lin et al., ICCV 2017, equation 5)."""

    kind: Literal["focal"]
    gamma: NonNegativeFloat = 2.0
    alpha: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Weight of the positives; 1 - alpha of the negatives. Both 1 when left out."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """s: the loss is the mean of both labels' losses, weighted by y (1 - s) + s / 2 and what it lacks to 1."""


class SquaredError(FrozenModel):
    """(prediction - label)^2."""

    kind: Literal["squared"]


class Huber(FrozenModel):
    """e^2 / 2 up to |e| = delta, then delta (|e| - delta / 2) (Huber, 1964)."""

    kind: Literal["huber"]
    delta: PositiveFloat = 1.0


class LogError(FrozenModel):
    """(z - log(1 + label))^2; the prediction is exp(z) - 1. Labels are at least 0."""

    kind: Literal["log"]


def _is_none(value: object) -> bool:
    """Keeps the digests and files of specs without the key as they were."""
    return value is None


class Platt(FrozenModel):
    """z' = a z + b with a > 0 (Platt: Probabilistic outputs for support vector machines, 1999)."""

    kind: Literal["platt"]


class Isotonic(FrozenModel):
    """A rising function without a form of its own (Zadrozny and Elkan, KDD 2002, section 3), linear between points."""

    kind: Literal["isotonic"]


CalibrationKind = Annotated[Platt | Isotonic, Field(discriminator="kind")]


class _Task(FrozenModel):
    label: ColumnName | None = None
    """Column of the logs; the task's own name when left out."""
    weight: PositiveFloat = 1.0
    """Factor of this task's mean loss in the sum that training minimizes."""
    example_weight: ColumnName | None = None
    """Column with a factor of at least 0 for an example's loss of this task. A row without it is an anomaly; with
    `only_where` or `missing_label: mask` it is not in the task instead."""
    only_where: ColumnName | None = None
    """Column with 0 or 1, known after the event, such as the click before a purchase: examples with 0 or without a
    value are not in this task, neither in training nor in its metrics."""
    missing_label: Literal["drop", "mask"] = "drop"
    """`drop`: a row without the label is left out of the examples. `mask`: only out of this task."""


class BinaryTask(_Task):
    """A probability; label 0 or 1."""

    kind: Literal["binary"]
    loss: Annotated[CrossEntropy | Focal, Field(discriminator="kind")] = CrossEntropy(kind="cross_entropy")
    keep_negatives: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of this task's negatives that ingestion keeps in the train split; for one task at most. The served logit
    is corrected, z + log(keep) (He et al.: Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014,
    section 6.3); other tasks weigh the kept ones by 1 / keep."""
    calibration: CalibrationKind | None = Field(default=None, exclude_if=_is_none)
    """A strictly rising correction of the logit, fitted on the validation split after training; the order of scores
    does not change."""


class RegressionTask(_Task):
    """A real number."""

    kind: Literal["regression"]
    loss: Annotated[SquaredError | Huber | LogError, Field(discriminator="kind")] = SquaredError(kind="squared")


class WatchTimeTask(_Task):
    """A time of at least 0, by weighted logistic regression: an example with time t > 0 is a positive of weight t, one
    with 0 a negative of weight 1; the odds exp(z) are the expected time (Covington et al.: Deep neural networks for
    YouTube recommendations, RecSys 2016, section 4.2)."""

    kind: Literal["watch_time"]
    unit: PositiveFloat = 1.0
    """Unit of t in units of the label: 60 for minutes if the label is in seconds. Scales the loss."""


Task = Annotated[BinaryTask | RegressionTask | WatchTimeTask, Field(discriminator="kind")]
