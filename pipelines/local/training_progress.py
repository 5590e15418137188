"""Reads the progress of a training job."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sangam.pipelines.times import duration
from sangam.trainer_module.progress import newest_lines


@dataclass(frozen=True)
class TrainingProgress:
    """The newest numbers of a training.

    Attributes:
        step: global step.
        loss: sum over the tasks.
        examples: examples so far.
        examples_per_s: rate since this attempt began.
        expected: examples at the end; 0 if unknown.
        losses: losses by task; may be empty.
    """

    step: int
    loss: float
    examples: int
    examples_per_s: float
    expected: int = 0
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """Finished share of the training; None if unknown."""
        return min(self.examples / self.expected, 1.0) if self.expected > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the end at the present rate, without early stopping; None if unknown."""
        if self.expected <= 0 or self.examples_per_s <= 0:
            return None
        return max(self.expected - self.examples, 0) / self.examples_per_s

    def __str__(self) -> str:
        rate, where = f"{self.examples_per_s:,.0f} examples/s", f"step {self.step:,} loss {self.loss:.4f}"
        if self.share is None:
            return f"{where} {rate}"
        # The least important parts are last: a narrow terminal cuts them off.
        left = f"{duration(self.left_s)} left  " if self.left_s is not None else ""
        return f"{math.floor(100 * self.share):3d} %  {rate}  {left}{where}"


@dataclass(frozen=True)
class Event:
    """A message; it replaces the numbers before it."""

    text: str

    def __str__(self) -> str:
        return self.text


def read_progress(path: Path) -> TrainingProgress | Event | None:
    """Returns the newest progress or message; None without one."""
    for fields in newest_lines(path):
        if (found := parsed(fields)) is not None:
            return found
    return None


def parsed(fields: Mapping[str, Any]) -> TrainingProgress | Event | None:
    """Returns the content of a line; None for another kind of line, such as one after a validation."""
    try:
        if "says" in fields:
            return Event(str(fields["says"]))
        return TrainingProgress(
            step=int(fields["step"]),
            loss=float(fields["loss"]),
            examples=int(fields["examples"]),
            examples_per_s=float(fields["examples_per_s"]),
            expected=int(fields.get("expected", 0)),
            losses={str(task): float(loss) for task, loss in fields.get("losses", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
