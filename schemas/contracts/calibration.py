"""The fitted calibration of a binary task: part of a checkpoint, an exported model and the report of training."""

import itertools
from typing import Literal

from pydantic import Field, model_validator

from sangam.schemas.parts.base import FrozenModel, PositiveFloat


class Calibration(FrozenModel):
    """A strictly rising function of the logit, linear between points: the order of scores does not change.

    Attributes:
        kind: kind in the spec.
        days: days that it was fitted on; empty for logs without days.
        examples: number of the task's examples that it was fitted on.
        positives: number of positives among these.
        logits: logits of the points, rising.
        calibrated: calibrated logits of the points, rising.
        slope: slope before the first point and after the last.
        problem: reason why it was not fitted and changes nothing; empty: it was fitted.
    """

    kind: Literal["platt", "isotonic"]
    days: tuple[str, ...] = ()
    examples: int
    positives: int
    logits: tuple[float, ...] = Field(default=(0.0,), min_length=1)
    calibrated: tuple[float, ...] = Field(default=(0.0,), min_length=1)
    slope: PositiveFloat = 1.0
    problem: str = ""

    @model_validator(mode="after")
    def _rises(self) -> "Calibration":
        for name, values in (("logits", self.logits), ("calibrated", self.calibrated)):
            if len(values) != len(self.logits) or any(left >= right for left, right in itertools.pairwise(values)):
                raise ValueError(f"calibration.{name}: does not rise (got {len(values)} values for as many logits)")
        return self

    def inverse(self) -> "Calibration":
        """Returns the function from calibrated logits to the model's own."""
        update = {"logits": self.calibrated, "calibrated": self.logits, "slope": 1.0 / self.slope}
        return self.model_copy(update=update)

    def facts(self) -> dict[str, object]:
        """Returns everything but the points, for reports."""
        return self.model_dump(mode="json", exclude={"logits", "calibrated", "slope"}) | {"points": len(self.logits)}
