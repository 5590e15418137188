"""What a training has done so far. It is written with every checkpoint, so that a resumed run tells the whole story."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer_module.loop.trainer import EpochReport
from trainer_module.snapshot import Arrays

_LOSSES, _EXAMPLES = "history_losses", "history_examples"


@dataclass
class History:
    """Grows while a job trains.

    Attributes:
        reports: of every epoch; the last one may be under way.
        examples: trained on, over all ranks and epochs.
        seconds: of training and validation.
        resumed_from: steps of the checkpoints from which the job went on.
        warm_start: what was found in the base, see `checkpoint.warm_start`; None: from nothing.
        blocked_s: seconds that training stood still for checkpoints.
        num_checkpoints: published, the final one not counted.
        num_given_up: that the disk would not have in time.
        passed_over: names of damaged checkpoints that the job did not go on from.
        best_step: of the checkpoint of the best epoch so far; None without early stopping.
        notes: what the user should know of this training, a sentence each.
        validated: examples of the validation split.
        refit_from: first of the reports that are of passes over the validation split; None: not begun.
    """

    reports: list[EpochReport] = field(default_factory=list)
    examples: int = 0
    seconds: float = 0.0
    resumed_from: list[int] = field(default_factory=list)
    warm_start: dict[str, Any] | None = None
    blocked_s: float = 0.0
    num_checkpoints: int = 0
    num_given_up: int = 0
    passed_over: list[str] = field(default_factory=list)
    best_step: int | None = None
    notes: list[str] = field(default_factory=list)
    validated: int = 0
    refit_from: int | None = None

    def note(self, text: str) -> None:
        """Tells the user something, once however often the job is resumed."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def epochs(self) -> list[EpochReport]:
        """The reports of epochs on the train split."""
        return self.reports[: self.refit_from]

    @property
    def refit(self) -> list[EpochReport]:
        """The reports of passes over the validation split."""
        return [] if self.refit_from is None else self.reports[self.refit_from :]

    @property
    def num_steps(self) -> int:
        """Steps trained, those skipped included."""
        return sum(len(report.step_losses) + report.skipped for report in self.reports)

    def losses(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Returns every step's mean loss by task: [steps, tasks]."""
        return np.array([losses for report in self.reports for losses in report.step_losses], np.float32)

    def encode(self, *, epoch_s: float, seconds: float) -> tuple[bytes, Arrays]:
        """Returns the history as JSON and arrays.

        Args:
            epoch_s: of the epoch under way, since it was begun or taken up.
            seconds: of the whole, since it was begun or taken up.
        """
        epochs = [
            {
                "steps": len(report.step_losses),
                "skipped": report.skipped,
                "seconds": report.seconds,
                "evict_s": report.evict_s,
                "validation": report.validation,
            }
            for report in self.reports
        ]
        if epochs:
            epochs[-1]["seconds"] = self.reports[-1].seconds + epoch_s
        rest = {name: value for name, value in vars(self).items() if name != "reports"}
        document = {**rest, "seconds": self.seconds + seconds, "epochs": epochs}
        examples = [number for report in self.reports for number in report.step_examples]
        # Losses were floats before they became rows of a report: float64 gives back the very same numbers.
        losses = np.array([losses for report in self.reports for losses in report.step_losses], np.float64)
        return json.dumps(document).encode(), {_LOSSES: losses, _EXAMPLES: np.array(examples, np.int64)}


def decode(content: bytes, arrays: Arrays) -> History:
    """Returns what `History.encode` was given."""
    document = json.loads(content)
    losses, examples = arrays[_LOSSES].tolist(), arrays[_EXAMPLES].tolist()
    reports, start = [], 0
    for epoch in document.pop("epochs"):
        end = start + epoch.pop("steps")
        reports.append(EpochReport(step_losses=losses[start:end], step_examples=examples[start:end], **epoch))
        start = end
    return History(reports=reports, **document)
