"""What the comparison of a version in the shadow found. Loads without TensorFlow and TFX."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from sangam.schemas.quantities import listed_counts

Decision = Literal["promote", "drop", "wait"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Paired(_Record):
    """A metric of both versions.

    Attributes:
        live: value of the live version.
        shadow: value of the version in the shadow.
        difference: the shadow's minus the live one's.
        lower: end of the difference's interval.
        upper: its other end.
    """

    live: float
    shadow: float
    difference: float
    lower: float
    upper: float


class Calibrated(Paired):
    """Predicted / observed of both versions; the difference is that of |ln(predicted / observed)|.

    Attributes:
        error: |ln(predicted / observed)| of the version in the shadow.
        error_lower: end of its interval.
        error_upper: its other end.
    """

    error: float
    error_lower: float
    error_upper: float


class TaskComparison(_Record):
    """A task of both versions.

    Attributes:
        task: name.
        users: number of users with an example.
        examples: number of examples.
        positives: number of positives; None: not binary.
        is_enough: whether there are enough to judge it.
        auc: its AUC; None: not binary, or only one label was seen.
        calibration: its calibration; None: labels or predictions have no sum above 0.
    """

    task: str
    users: int
    examples: int
    positives: int | None
    is_enough: bool
    auc: Paired | None = None
    calibration: Calibrated | None = None

    def line(self) -> str:
        """Returns what was measured in a line."""
        seen = [f"{self.users:,} users", f"{self.examples:,} examples"]
        if self.positives is not None:
            seen.append(f"{self.positives:,} positives")
        told = [f"{self.task}: {', '.join(seen)}{'' if self.is_enough else ', too few to judge'}"]
        if self.auc:
            auc = self.auc
            told.append(
                f"AUC {auc.live:.4f} live, {auc.shadow:.4f} in the shadow, difference {auc.difference:+.4f} "
                f"({auc.lower:+.4f} to {auc.upper:+.4f})"
            )
        if self.calibration:
            told.append(
                f"predicted / observed {self.calibration.live:.3f} live, {self.calibration.shadow:.3f} in the shadow"
            )
        return "; ".join(told)


class Comparison(_Record):
    """All tasks.

    Attributes:
        level: probability with which all intervals at all looks together are right.
        by: what an interval is by: a feature or key, or `request`.
        tasks: the tasks.
        left_out: numbers of candidates that do not count, by reason.
    """

    level: float
    by: str
    tasks: list[TaskComparison]
    left_out: dict[str, int]

    def lines(self) -> list[str]:
        """Returns what was measured, in a line for each task."""
        told = [task.line() for task in self.tasks]
        if self.left_out:
            told.append(f"left out: {listed_counts(self.left_out)} candidates")
        return [*told, f"intervals by {self.by}, {self.level:.0%} for all tasks and all looks together"]


class Verdict(_Record):
    """What is decided, and why."""

    decision: Decision
    because: str
