"""The training so far. Every checkpoint contains it, so that the report of a resumed job covers all of it."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec.training import Order
from sangam.trainer_module.loop.early_stopping import Point
from sangam.trainer_module.snapshot import Arrays

_CALIBRATIONS, _POINTS = "calibrations", "points"
_LOSSES, _EXAMPLES, _ONLINE = "history_losses", "history_examples", "history_online_"


@dataclass
class EpochReport:
    """The results of one epoch.

    Attributes:
        step_losses: every step's mean loss by task: [steps, tasks].
        step_examples: every step's number of examples: [steps].
        skipped: number of steps missing from both, because losses or gradients were not finite.
        left_out: number of examples in skipped steps.
        seconds: duration of training, without validation.
        evict_s: the part of `seconds` spent removing rows on this rank.
        input_wait_s: the part of `seconds` spent waiting for batches; averaged over the ranks after the epoch.
        rank_wait_s: the part spent waiting for messages of other ranks, averaged too; None where it is unknown.
        num_shared: number of leading steps known to all ranks, if each trains at its own pace.
        shared_skipped, shared_left_out: the parts of `skipped` and `left_out` known to all ranks.
        validation: `auc` or `rmse` on the validation split by task; empty without one. After the epoch, or of the best
            point within it, if the model is that one's.
        calibrations: fitted on that split, for calibrated tasks.
        points: the scores that decide when training ends.
        is_cut: whether training ends before the epoch does.
    """

    step_losses: list[list[float]] = field(default_factory=list)
    step_examples: list[int] = field(default_factory=list)
    skipped: int = 0
    left_out: int = 0
    seconds: float = 0.0
    evict_s: float = 0.0
    input_wait_s: float = 0.0
    rank_wait_s: float | None = 0.0
    num_shared: int = 0
    shared_skipped: int = 0
    shared_left_out: int = 0
    validation: dict[str, dict[str, float]] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    is_cut: bool = False

    @property
    def examples(self) -> int:
        """Number of examples over all ranks."""
        return sum(self.step_examples)

    @property
    def is_over(self) -> bool:
        """Whether the epoch was trained and scored, by the decisive scores."""
        return bool(self.points) and self.points[-1].is_end

    def mean_losses(self) -> list[float]:
        """Returns each task's mean loss over the examples: [tasks]."""
        means: list[float] = np.average(self.step_losses, axis=0, weights=self.step_examples).tolist()
        return means


@dataclass
class History:
    """The state of a training's report; grows while the job trains.

    Attributes:
        reports: every epoch's report; the last may be under way.
        examples: number of examples trained on, over all ranks and epochs.
        seconds: duration of training and validation.
        resumed_from: steps of the checkpoints that the job resumed from.
        warm_start: rows and weights loaded from the base, see `checkpoint.warm_start`; None without a base.
        blocked_s: seconds that training waited for checkpoints.
        num_checkpoints: number of published checkpoints, without the final one.
        num_given_up: number of checkpoints not written by their deadline.
        passed_over: names of damaged checkpoints.
        best_step: step of the best epoch's checkpoint so far; None without early stopping.
        order: order of the days that the first process has chosen; None: the spec's.
        notes: sentences for the user.
        validated: number of examples in the validation split.
        refit_from: index of the first report of a pass over the validation split; None before the refit.
        means: mean predictions before the refit by calibrated task, see `refit_shift`.
        online: state of an online training, JSON.
        online_arrays: arrays of that state.
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
    order: Order | None = None
    notes: list[str] = field(default_factory=list)
    validated: int = 0
    refit_from: int | None = None
    means: dict[str, float] = field(default_factory=dict)
    online: dict[str, Any] = field(default_factory=dict)
    online_arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Adds a note, once even if the job is resumed."""
        if text not in self.notes:
            self.notes.append(text)

    def report_of(self, epoch: int) -> EpochReport:
        """Returns an epoch's report; creates it if the epoch is new."""
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
    def points(self) -> list[Point]:
        """The scores that decide when training ends."""
        return [point for report in self.epochs for point in report.points]

    @property
    def num_steps(self) -> int:
        """Number of steps trained, including skipped ones."""
        return sum(len(report.step_losses) + report.skipped for report in self.reports)

    def losses(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Returns every step's mean loss by task: [steps, tasks]."""
        return np.array([losses for report in self.reports for losses in report.step_losses], np.float32)

    def encode(self, *, epoch_s: float, seconds: float) -> tuple[bytes, Arrays]:
        """Returns the history as JSON and arrays.

        Args:
            epoch_s: seconds of the epoch under way, in this process.
            seconds: seconds of training in this process.
        """
        epochs = [
            {
                "steps": len(report.step_losses),
                "skipped": report.skipped,
                "left_out": report.left_out,
                "seconds": report.seconds,
                "evict_s": report.evict_s,
                "input_wait_s": report.input_wait_s,
                "rank_wait_s": report.rank_wait_s,
                "validation": report.validation,
                _POINTS: [point._asdict() for point in report.points],
                _CALIBRATIONS: {task: fitted.model_dump_json() for task, fitted in report.calibrations.items()},
            }
            for report in self.reports
        ]
        if epochs:
            epochs[-1]["seconds"] = self.reports[-1].seconds + epoch_s
        rest = {name: value for name, value in vars(self).items() if name not in ("reports", "online_arrays")}
        document = {**rest, "seconds": self.seconds + seconds, "epochs": epochs}
        examples = [number for report in self.reports for number in report.step_examples]
        # float64: the reports' Python floats must be restored exactly.
        losses = np.array([losses for report in self.reports for losses in report.step_losses], np.float64)
        arrays: Arrays = {_ONLINE + name: array for name, array in self.online_arrays.items()}
        return json.dumps(document).encode(), {_LOSSES: losses, _EXAMPLES: np.array(examples, np.int64), **arrays}


def decode(content: bytes, arrays: Arrays) -> History:
    """Decodes the result of `History.encode`."""
    document = json.loads(content)
    losses, examples = arrays[_LOSSES].tolist(), arrays[_EXAMPLES].tolist()
    reports, start = [], 0
    for epoch in document.pop("epochs"):
        end = start + epoch.pop("steps")
        steps = {"step_losses": losses[start:end], "step_examples": examples[start:end], "num_shared": end - start}
        calibrations = {task: Calibration.model_validate_json(text) for task, text in epoch.pop(_CALIBRATIONS).items()}
        points = [Point(**point) for point in epoch.pop(_POINTS, [])]
        left_out = {"shared_skipped": epoch["skipped"], "shared_left_out": epoch["left_out"]}
        reports.append(EpochReport(**steps, **left_out, **epoch, calibrations=calibrations, points=points))
        start = end
    online = {name.removeprefix(_ONLINE): array for name, array in arrays.items() if name.startswith(_ONLINE)}
    return History(reports=reports, online_arrays=online, **document)
