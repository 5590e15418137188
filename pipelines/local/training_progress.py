"""Reads the progress of a training job."""

from dataclasses import dataclass
from pathlib import Path

from trainer_module.progress import newest_lines


@dataclass(frozen=True)
class TrainingProgress:
    """The newest numbers of training."""

    step: int
    loss: float
    examples: int
    examples_per_s: float

    def __str__(self) -> str:
        return f"step {self.step:,} loss {self.loss:.4f} {self.examples_per_s:,.0f} examples/s"


@dataclass(frozen=True)
class Event:
    """A message; it replaces the numbers before it."""

    text: str

    def __str__(self) -> str:
        return self.text


def read_progress(path: Path) -> TrainingProgress | Event | None:
    """Returns the newest progress or message; None while there is none."""
    for fields in newest_lines(path):
        try:
            if "says" in fields:
                return Event(str(fields["says"]))
            return TrainingProgress(
                step=int(fields["step"]),
                loss=float(fields["loss"]),
                examples=int(fields["examples"]),
                examples_per_s=float(fields["examples_per_s"]),
            )
        except (ValueError, KeyError, TypeError):
            continue
    return None
