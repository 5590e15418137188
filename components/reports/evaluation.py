"""The verdict of an evaluation: metrics, every gate with its reason, and notes.

Loads without TensorFlow and TFX: summaries and alerts read it.
"""

from collections.abc import Container, Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, computed_field

from sangam.schemas.parts.judging import Direction
from sangam.schemas.spec.metrics import UNCALIBRATED_METRIC, direction, is_count

FILE_NAME = "verdict.json"
TEXT_FILE = "verdict.txt"
Metrics = dict[str, float | None]
"""Metric to value; None where it is undefined."""
Intervals = dict[str, tuple[float, float]]
"""Metric to both ends of its confidence interval; metrics without one are absent."""
Kind = Literal["output", "finite", "leak", "rows", "value", "change", "gain"]
_CALIBRATION = (("calibration", "predicted over observed"), ("calibration_error", "calibration error"))
"""Metrics of calibration in words."""
NEVER_BY_HAND: frozenset[Kind] = frozenset({"output", "finite"})
"""Gates that cannot be overridden: a model that fails them cannot be served."""


def shown_value(metric: str, value: float | None) -> str:
    """Returns a metric's value as text: `0.7428`; of a count `20,000`."""
    if value is None:
        return "undefined"
    return f"{value:,.0f}" if is_count(metric) else f"{value:.4f}"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GateVerdict(_Record):
    """The verdict on one bound.

    Attributes:
        kind: bounded quantity. `output`: the model scores the task; `finite`: the scores are finite; `leak`: the AUC or
            that of one column alone, is too good; `rows`: the loss of reduced rows; `value`: the metric; `change`: its
            decline from the last blessed model's; `gain`: its improvement.
        metric: name of the metric.
        slice: slice, such as `tab=home` or `each tab`; empty: all examples.
        bound: value of at_least or at_most; for a band its lower end; for a change max_drop or max_rise; for a gain
            min_gain.
        upper_bound: upper end of a band.
        judge: quantity that must be within the bound. `bound`: the worse end of the interval; `point`: the value.
        value: value of the metric; for a change its decline, negative if better; for a gain its improvement.
        lower: end of the value's confidence interval; None without one.
        upper: the other end.
        passed: whether the bound holds.
        reason: a sentence.
    """

    kind: Kind
    metric: str
    slice: str = ""
    bound: float
    upper_bound: float | None = None
    judge: Literal["point", "bound"] = "point"
    value: float | None
    lower: float | None = None
    upper: float | None = None
    passed: bool
    reason: str


class Difference(_Record):
    """A metric minus the last blessed model's on the same examples, with the interval of the paired difference."""

    value: float
    lower: float | None = None
    upper: float | None = None


class CalibrationBucket(_Record):
    """Examples of similar scores: their mean prediction and mean label."""

    mean_prediction: float
    mean_label: float
    num_examples: float


class TaskVerdict(_Record):
    """Metrics and gates of one task.

    Attributes:
        metrics: over all examples.
        intervals: confidence intervals of `metrics`.
        baseline: the last blessed model's metrics over the same examples; empty without one that scores the task.
        differences: `metrics` minus `baseline`, for metrics that a gate can bound.
        slices: metrics by slice, such as `tab=home`.
        slice_intervals: confidence intervals of `slices`.
        calibration_buckets: over all examples, lowest scores first; empty for regression.
        gates: in the order in which they were judged.
        directions: directions of the metrics that the spec declares.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    metrics: Metrics
    intervals: Intervals = {}
    baseline: Metrics = {}
    differences: dict[str, Difference] = {}
    slices: dict[str, Metrics] = {}
    slice_intervals: dict[str, Intervals] = {}
    calibration_buckets: list[CalibrationBucket] = []
    gates: list[GateVerdict]
    directions: dict[str, Direction] = Field(default={}, exclude_if=lambda directions: directions == {})

    def direction(self, metric: str) -> Direction:
        """Returns the direction of a metric's better values."""
        return direction(metric, self.directions)

    @property
    def failures(self) -> list[GateVerdict]:
        """The gates that failed."""
        return [gate for gate in self.gates if not gate.passed]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def auc(self) -> float | None:
        """The main metric of a binary task."""
        return self.metrics.get("auc")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def rmse(self) -> float | None:
        """The main metric of a regression."""
        return self.metrics.get("rmse")


class Verdict(_Record):
    """Whether a model may be pushed, and why.

    Attributes:
        blessed: all gates of all tasks passed, or a person overrode those that did not.
        baseline: uri of the blessed model that the candidate was compared with, if any.
        notes: omitted checks with their reasons.
        warnings: sentences on what no gate bounds: calibration, slices, a metric that is worse than the last model's.
        tasks: by name.
        because: the reason of a manual blessing; empty: the gates decided.
        by: the person.
        when: ISO 8601.
    """

    blessed: bool
    baseline: str | None
    notes: list[str]
    warnings: list[str] = []
    tasks: dict[str, TaskVerdict]
    because: str = ""
    by: str = ""
    when: str = ""

    def refusals(self, kinds: Container[Kind] = get_args(Kind)) -> list[str]:
        """Returns a sentence for every gate of some kinds that failed."""
        return refusals(self.tasks, kinds)

    def text(self) -> str:
        """Returns the verdict as text: the outcome, a sentence for each gate, and the notes."""
        gates = [(task, gate) for task, judged in self.tasks.items() for gate in judged.gates]
        failed = f"{len(self.refusals())} of {len(gates)} gates did not hold"
        if self.because:
            headline = f"blessed by hand by {self.by}, because {self.because}: {failed}"
        else:
            headline = f"blessed: all {len(gates)} gates held" if self.blessed else f"refused: {failed}"
        baseline = f"compared with {self.baseline}" if self.baseline else "compared with no other model"
        sentences = [f"{'pass' if gate.passed else 'FAIL'} {task}: {gate.reason}" for task, gate in gates]
        shown = {task: calibration_text(judged.metrics) for task, judged in self.tasks.items()}
        sentences += [f"{task}: {told}" for task, told in shown.items() if told]
        said = [*(f"warning {each}" for each in self.warnings), *(f"note {note}" for note in self.notes)]
        return "\n".join([headline, baseline, *sentences, *said]) + "\n"

    def blessed_by_hand(self, *, because: str, by: str, when: str) -> "Verdict":
        """Returns the verdict as overridden by a person, with a note on that before the others."""
        overridden = "; ".join(self.refusals())
        note = f"blessed by hand by {by} at {when}, because {because} (overridden: {overridden})"
        update = {"blessed": True, "because": because, "by": by, "when": when, "notes": [note, *self.notes]}
        return self.model_copy(update=update)


def refusals(tasks: Mapping[str, TaskVerdict], kinds: Container[Kind] = get_args(Kind)) -> list[str]:
    """Returns a sentence for every gate of some kinds that failed."""
    failed = [(task, gate) for task, judged in tasks.items() for gate in judged.failures]
    return [f"{task}: {gate.reason}" for task, gate in failed if gate.kind in kinds]


def calibrated(metrics: Metrics) -> str:
    """Returns the effect of a calibration in words, from a task's metrics; empty for a task without one."""
    pairs = [(words, metrics.get(name), metrics.get(UNCALIBRATED_METRIC + name)) for name, words in _CALIBRATION]
    if all(UNCALIBRATED_METRIC + name not in metrics for name, _ in _CALIBRATION):
        return ""
    return ", ".join(
        f"{words} {_number(after)}, before calibration {_number(before)}" for words, after, before in pairs
    )


def calibration_text(metrics: Metrics) -> str:
    """Returns predicted over observed and the calibration error in words, of a calibrated task also before that; empty
    where neither is known."""
    told = [f"{words} {_number(metrics[name])}" for name, words in _CALIBRATION if metrics.get(name) is not None]
    return calibrated(metrics) or ", ".join(told)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
