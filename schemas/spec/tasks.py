"""Tasks: predicted values and their losses."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts import roles
from sangam.schemas.parts.base import ColumnName, FrozenModel, NonNegativeFloat, PositiveFloat
from sangam.schemas.parts.kinds import AnyKind


class CrossEntropy(roles.BinaryLoss):
    """Sigmoid cross-entropy."""

    kind: Literal["cross_entropy"]
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Smoothing s of the labels: y becomes y (1 - s) + s / 2 (Szegedy et al., CVPR 2016, section 7)."""


class Focal(roles.BinaryLoss):
    """-alpha_t (1 - p_t)^gamma log p_t (Lin et al., ICCV 2017, equation 5)."""

    kind: Literal["focal"]
    gamma: NonNegativeFloat = 2.0
    """Exponent that reduces the loss of well classified examples."""
    alpha: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Weight of positives; negatives have weight 1 - alpha. Left out: both have weight 1."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Smoothing s of the labels: the loss is p L(1) + (1 - p) L(0) with p = y (1 - s) + s / 2."""


class SquaredError(roles.RegressionLoss):
    """(prediction - label)^2."""

    kind: Literal["squared"]


class Huber(roles.RegressionLoss):
    """e^2 / 2 up to |e| = delta, then delta (|e| - delta / 2) (Huber, 1964)."""

    kind: Literal["huber"]
    delta: PositiveFloat = 1.0
    """Absolute error at which the loss becomes linear."""


class LogError(roles.RegressionLoss):
    """(z - log(1 + label))^2; the prediction is exp(z) - 1. Labels are at least 0."""

    kind: Literal["log"]


def _is_none(value: object) -> bool:
    """Leaves the key out of digests and files of specs without it."""
    return value is None


class Platt(FrozenModel):
    """z' = a z + b with a > 0 (Platt: Probabilistic outputs for support vector machines, 1999)."""

    kind: Literal["platt"]


class Isotonic(FrozenModel):
    """A rising piecewise linear function of the logit (isotonic regression: Zadrozny and Elkan, KDD 2002, section
    3)."""

    kind: Literal["isotonic"]


CalibrationKind = Annotated[Platt | Isotonic, Field(discriminator="kind")]


class _Task(FrozenModel):
    label: ColumnName | None = None
    """Column of the logs with the label. Left out: the column with the name of the task."""
    weight: PositiveFloat = 1.0
    """Factor of the task's mean loss in the sum that training minimizes."""
    example_weight: ColumnName | None = None
    """Column with a factor, at least 0, of each example's loss. A row without the factor is an anomaly; with
    `only_where` or `missing_label: mask` it is not in the task instead."""
    only_where: ColumnName | None = None
    """Column with 0 or 1, known after the event, such as the click before a purchase. Examples with 0 or without a
    value are not in the task: it neither trains nor is measured on them."""
    missing_label: Literal["drop", "mask"] = "drop"
    """Treatment of a row without the label. `drop`: no example. `mask`: an example that is not in this task."""


class BinaryTask(_Task):
    """A probability; label 0 or 1."""

    kind: Literal["binary"]
    loss: Annotated[roles.BinaryLoss, AnyKind(roles.BinaryLoss)] = CrossEntropy(kind="cross_entropy")
    """Loss that training minimizes."""
    keep_negatives: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the task's negatives that ingestion keeps in the train split; for at most one task. The served logit is
    corrected to z + log(keep) (He et al.: Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014,
    section 6.3); in other tasks the kept ones weigh 1 / keep. Left out: all are kept."""
    calibration: CalibrationKind | None = Field(default=None, exclude_if=_is_none)
    """Strictly rising correction of the logit, fitted on the validation split after training; it keeps the order of
    scores. Left out: none."""


class RegressionTask(_Task):
    """A real number."""

    kind: Literal["regression"]
    loss: Annotated[roles.RegressionLoss, AnyKind(roles.RegressionLoss)] = SquaredError(kind="squared")
    """Loss that training minimizes, in units of `scale`."""
    center: float = Field(default=0.0, exclude_if=lambda center: center == 0.0)
    """Label, or with the loss `log` its log(1 + label), that the model predicts before training: about the mean."""
    scale: PositiveFloat = Field(default=1.0, exclude_if=lambda scale: scale == 1.0)
    """Difference of labels, or of these logarithms, that is 1 for the model: about the standard deviation."""


class WatchTimeTask(_Task):
    """A time of at least 0, by weighted logistic regression: an example with time t > 0 is a positive of weight t, an
    example with time 0 is a negative of weight 1; the odds exp(z) are the expected time (Covington et al.: Deep neural
    networks for YouTube recommendations, RecSys 2016, section 4.2)."""

    kind: Literal["watch_time"]
    unit: PositiveFloat = 1.0
    """Unit of t in units of the label: 60 for minutes if the label is in seconds. It scales the loss."""


Task = Annotated[BinaryTask | RegressionTask | WatchTimeTask, Field(discriminator="kind")]
