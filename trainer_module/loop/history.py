"""What a training has done so far. Every checkpoint holds it, so that the report of a resumed job covers all of it."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from schemas.contracts.calibration import Calibration
from trainer_module.snapshot import Arrays

_CALIBRATIONS = "calibrations"
_LOSSES, _EXAMPLES, _ONLINE = "history_losses", "history_examples", "history_online_"


@dataclass
class EpochReport:
    """What one epoch did.

    Attributes:
        step_losses: every step's mean loss by task: [steps, tasks].
        step_examples: every step's number of examples: [steps].
        skipped: steps left out of both, for losses or gradients that were not finite.
        left_out: examples of these.
        seconds: of training, without validation.
        evict_s: of these, spent removing rows on this rank.
        input_wait_s: of these, spent waiting for batches; the mean over the ranks once the epoch is complete.
        num_shared: of these steps, the first so many are known to all ranks, where each trains at its own pace.
        shared_skipped, shared_left_out: of `skipped` and `left_out`, what all ranks know.
        validation: by task, `auc` or `rmse` on the validation split; empty without one.
        calibrations: by task that wants one, fitted on that split.
    """

    step_losses: list[list[float]] = field(default_factory=list)
    step_examples: list[int] = field(default_factory=list)
    skipped: int = 0
    left_out: int = 0
    seconds: float = 0.0
    evict_s: float = 0.0
    input_wait_s: float = 0.0
    num_shared: int = 0
    shared_skipped: int = 0
    shared_left_out: int = 0
    validation: dict[str, dict[str, float]] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)

    @property
    def examples(self) -> int:
        """Number of examples over all ranks."""
        return sum(self.step_examples)

    def mean_losses(self) -> list[float]:
        """Returns each task's mean loss over the examples: [tasks]."""
        means: list[float] = np.average(self.step_losses, axis=0, weights=self.step_examples).tolist()
        return means


@dataclass
class History:
    """Grows while a job trains.

    Attributes:
        reports: of every epoch; the last one may be under way.
        examples: trained on, over all ranks and epochs.
        seconds: of training and validation.
        resumed_from: steps of the checkpoints that the job was resumed from.
        warm_start: what was loaded from the base, see `checkpoint.warm_start`; None: from nothing.
        blocked_s: seconds that training stood still for checkpoints.
        num_checkpoints: published, the final one not counted.
        num_given_up: checkpoints not written by their deadline.
        passed_over: names of damaged checkpoints.
        best_step: of the checkpoint of the best epoch so far; None without early stopping.
        notes: for the user, a sentence each.
        validated: examples of the validation split.
        refit_from: first of the reports that are of passes over the validation split; None: not begun.
        online: what an online training has noted, JSON.
        online_arrays: arrays of it.
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
    online: dict[str, Any] = field(default_factory=dict)
    online_arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Adds a note, once however often the job is resumed."""
        if text not in self.notes:
            self.notes.append(text)

    def report_of(self, epoch: int) -> EpochReport:
        """Returns an epoch's report; begins it where the epoch is new."""
        if epoch == len(self.reports):
            self.reports.append(EpochReport())
        return self.reports[epoch]

    @property
    def epochs(self) -> list[EpochReport]:
        """The reports of epochs on the train split."""
        return self.reports[: self.refit_from]

    @property
    def refit(self) -> list[EpochReport]:
        """The reports of passes over the validation split."""
        return [] if self.refit_from is None else self.reports[self.refit_from :]

    @property
    def validations(self) -> list[dict[str, dict[str, float]]]:
        """What the validation split gave after each epoch on the train split."""
        return [report.validation for report in self.epochs]

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
            epoch_s: of the epoch under way, in this process.
            seconds: of training in this process.
        """
        epochs = [
            {
                "steps": len(report.step_losses),
                "skipped": report.skipped,
                "left_out": report.left_out,
                "seconds": report.seconds,
                "evict_s": report.evict_s,
                "input_wait_s": report.input_wait_s,
                "validation": report.validation,
                _CALIBRATIONS: {task: fitted.model_dump_json() for task, fitted in report.calibrations.items()},
            }
            for report in self.reports
        ]
        if epochs:
            epochs[-1]["seconds"] = self.reports[-1].seconds + epoch_s
        rest = {name: value for name, value in vars(self).items() if name not in ("reports", "online_arrays")}
        document = {**rest, "seconds": self.seconds + seconds, "epochs": epochs}
        examples = [number for report in self.reports for number in report.step_examples]
        # float64: the reports hold Python floats, which must come back exactly.
        losses = np.array([losses for report in self.reports for losses in report.step_losses], np.float64)
        arrays: Arrays = {_ONLINE + name: array for name, array in self.online_arrays.items()}
        return json.dumps(document).encode(), {_LOSSES: losses, _EXAMPLES: np.array(examples, np.int64), **arrays}


def decode(content: bytes, arrays: Arrays) -> History:
    """Returns what `History.encode` was given."""
    document = json.loads(content)
    losses, examples = arrays[_LOSSES].tolist(), arrays[_EXAMPLES].tolist()
    reports, start = [], 0
    for epoch in document.pop("epochs"):
        end = start + epoch.pop("steps")
        steps = {"step_losses": losses[start:end], "step_examples": examples[start:end], "num_shared": end - start}
        calibrations = {task: Calibration.model_validate_json(text) for task, text in epoch.pop(_CALIBRATIONS).items()}
        left_out = {"shared_skipped": epoch["skipped"], "shared_left_out": epoch["left_out"]}
        reports.append(EpochReport(**steps, **left_out, **epoch, calibrations=calibrations))
        start = end
    online = {name.removeprefix(_ONLINE): array for name, array in arrays.items() if name.startswith(_ONLINE)}
    return History(reports=reports, online_arrays=online, **document)
