"""Notes on a model that no gate refuses: predictions that are a little off, and ids that are all new to it."""

from collections.abc import Collection, Iterator, Mapping

from sangam.components.reports.evaluation import TaskVerdict
from sangam.components.steps.evaluator.judge.warnings import is_surely_off, shown_ratio
from sangam.components.steps.evaluator.metrics.measured import UNDEFINED, SliceResult
from sangam.schemas.spec.metrics import new_id_slice
from sangam.schemas.spec.tasks import BinaryTask, RegressionTask, Task

CALIBRATED = (0.9, 1.1)
"""Band of predicted over observed; beyond it there is a note."""
NEARLY_ALL = 0.98
"""Share of the examples from which on an id counts as new in all of them."""


def calibration_notes(name: str, task: Task, measured: Mapping[str, SliceResult], judged: TaskVerdict) -> Iterator[str]:
    """Yields a sentence where predicted over observed is off; none where a gate or a warning says so.

    None of a regression: its mean label may be about 0.
    """
    ratio = measured[""].candidate[name].get("calibration", UNDEFINED)
    low, high = CALIBRATED
    is_off = ratio.value is not None and not low <= ratio.value <= high
    is_gated = any(gate.metric == "calibration" and not gate.slice for gate in judged.gates)
    is_warned = isinstance(task, BinaryTask) and is_surely_off(ratio) and not judged.failures
    if is_off and not is_gated and not is_warned and not isinstance(task, RegressionTask):
        yield f"{name}: predicted over observed {shown_ratio(ratio)} is beyond {low:g} to {high:g}"


def new_id_notes(features: Collection[str], measured: Mapping[str, SliceResult], fewest: int) -> Iterator[str]:
    """Yields a sentence for each feature whose ids are new to the model in nearly all examples.

    Args:
        features: names of all features.
        measured: measured values by slice; the empty name is all examples.
        fewest: fewest examples to say so of.
    """
    task, every = max(
        ((task, _examples(measured[""], task)) for task in measured[""].candidate), key=lambda each: each[1]
    )
    for feature in features:
        new = measured.get(new_id_slice(feature))
        number = _examples(new, task) if new else 0.0
        if every >= fewest and number >= NEARLY_ALL * every:
            yield (
                f"{feature}: {number:,.0f} of {every:,.0f} examples have an id without a row in the model: its table "
                "learns nothing that returns; leave the feature out"
            )


def _examples(result: SliceResult, task: str) -> float:
    return result.candidate.get(task, {}).get("num_examples", UNDEFINED).value or 0.0
