"""What an evaluation comes to, for people and later steps: metrics, gates with a reason each, and notes.

Loads without TensorFlow: summaries and reports read it.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

FILE_NAME = "verdict.json"
TEXT_FILE = "verdict.txt"
Metrics = dict[str, float | None]
"""Metric to value; None where it is undefined."""
Intervals = dict[str, tuple[float, float]]
"""Metric to both ends of its confidence interval; metrics without one are left out."""
Kind = Literal["output", "finite", "rows", "value", "change", "gain"]
NEVER_BY_HAND: frozenset[Kind] = frozenset({"output", "finite"})
"""Gates that nobody may override: what they refuse is not a matter of taste, it cannot be served."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GateVerdict(_Record):
    """What one bound said.

    Attributes:
        kind: `output`: the model gives the task's scores at all; `finite`: they are finite numbers; `rows`: what
            reduced rows cost; `value`: against declared bounds; `change`: how much worse than the last blessed model;
            `gain`: how much better.
        metric: that is bound.
        slice: whose examples were judged, such as `tab=home`, or `each tab`; empty: all examples.
        bound: at_least or at_most; for a band its lower end; for a change max_drop or max_rise; for a gain min_gain.
        upper_bound: of a band.
        judge: `bound`: the worse end of the interval had to hold, not only the value.
        value: the metric; for a change how much worse than the blessed model, negative when better; for a gain how much
            better.
        lower: end of the value's confidence interval; None without one.
        upper: the other end.
        passed: whether it holds.
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


class CalibrationBucket(_Record):
    """A part of the examples with neighboring scores: what was predicted on average, and what happened."""

    mean_prediction: float
    mean_label: float
    num_examples: float


class TaskVerdict(_Record):
    """One task, over all examples and by slice (`tab=home`), and its gates.

    Attributes:
        metrics: over all examples.
        intervals: of these.
        slices: metrics by slice.
        slice_intervals: of these.
        calibration_buckets: over all examples, lowest scores first; empty for regression.
        gates: in the order in which they were judged.
    """

    metrics: Metrics
    intervals: Intervals = {}
    slices: dict[str, Metrics]
    slice_intervals: dict[str, Intervals] = {}
    calibration_buckets: list[CalibrationBucket] = []
    gates: list[GateVerdict]


class Verdict(_Record):
    """Whether a model may be pushed, and why.

    Attributes:
        blessed: all gates of all tasks passed, or a person overrode those that did not.
        baseline: uri of the blessed model that the candidate was compared with, if any.
        notes: what was not checked, and why.
        tasks: by name.
        because: the reason that a person gave; empty: the gates decided.
        by: that person.
        when: ISO 8601.
    """

    blessed: bool
    baseline: str | None
    notes: list[str]
    tasks: dict[str, TaskVerdict]
    because: str = ""
    by: str = ""
    when: str = ""

    def failures(self) -> list[tuple[str, GateVerdict]]:
        """Returns every gate that did not hold, with its task."""
        return [(task, gate) for task, judged in self.tasks.items() for gate in judged.gates if not gate.passed]

    def text(self) -> str:
        """Returns the verdict in words: what it is, a sentence for each gate, and what was not checked."""
        gates = [(task, gate) for task, judged in self.tasks.items() for gate in judged.gates]
        failed = f"{len(self.failures())} of {len(gates)} gates did not hold"
        if self.because:
            first = f"blessed by hand by {self.by}, because {self.because}: {failed}"
        else:
            first = f"blessed: all {len(gates)} gates held" if self.blessed else f"refused: {failed}"
        baseline = f"compared with {self.baseline}" if self.baseline else "compared with no other model"
        sentences = [f"{'pass' if gate.passed else 'FAIL'} {task}: {gate.reason}" for task, gate in gates]
        return "\n".join([first, baseline, *sentences, *(f"note {note}" for note in self.notes)]) + "\n"

    def blessed_by_hand(self, *, because: str, by: str, when: str) -> "Verdict":
        """Returns the verdict after a person has overridden it, with a note that says so first."""
        overridden = "; ".join(f"{task}: {gate.reason}" for task, gate in self.failures())
        note = f"blessed by hand by {by} at {when}, because {because} (overridden: {overridden})"
        update = {"blessed": True, "because": because, "by": by, "when": when, "notes": [note, *self.notes]}
        return self.model_copy(update=update)
