"""Reads what the trainer's ranks say of their progress."""

import json
from dataclasses import dataclass
from pathlib import Path

PROGRESS_FILE = "progress.jsonl"
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class TrainingProgress:
    """The last line that a rank wrote."""

    step: int
    loss: float
    examples: int
    examples_per_s: float

    def __str__(self) -> str:
        return f"step {self.step:,} loss {self.loss:.4f} {self.examples_per_s:,.0f} examples/s"


def read_progress(path: Path) -> TrainingProgress | None:
    """Returns the newest whole line of the file; None while there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    for line in reversed(lines):
        try:
            fields = json.loads(line)
            return TrainingProgress(
                step=int(fields["step"]),
                loss=float(fields["loss"]),
                examples=int(fields["examples"]),
                examples_per_s=float(fields["examples_per_s"]),
            )
        except (ValueError, KeyError, TypeError):
            continue
    return None
