"""Reads what a training job says of its progress."""

from dataclasses import dataclass
from pathlib import Path

from trainer_module.progress import newest_lines


@dataclass(frozen=True)
class TrainingProgress:
    """The last numbers of training."""

    step: int
    loss: float
    examples: int
    examples_per_s: float

    def __str__(self) -> str:
        return f"step {self.step:,} loss {self.loss:.4f} {self.examples_per_s:,.0f} examples/s"


@dataclass(frozen=True)
class Event:
    """A sentence: the numbers before it do not hold any more."""

    text: str

    def __str__(self) -> str:
        return self.text


def read_progress(path: Path) -> TrainingProgress | Event | None:
    """Returns what the newest line that says something for people says; None while there is none."""
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
