"""Warnings on a model that no gate refuses: calibration, and metrics that are surely worse than the last model's."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, log
from statistics import NormalDist, pstdev

from sangam.components.reports.evaluation import TaskVerdict
from sangam.components.reports.headline import main_metric
from sangam.components.steps.evaluator.metrics.measured import UNDEFINED, Measured, SliceResult, paired_change
from sangam.schemas.parts.judging import Direction
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Evaluation
from sangam.schemas.spec.tasks import BinaryTask

CALIBRATED = (0.8, 1.25)
"""Band of predicted over observed; beyond it a task or slice is warned of."""
_NAMED = 3
"""Slices that a warning lists by name."""


def warnings_of(
    task: str, inputs: Inputs, evaluation: Evaluation, measured: Mapping[str, SliceResult], judged: TaskVerdict
) -> Iterator[str]:
    """Yields a sentence for each warning on a task; none if a gate of it has failed, which says more.

    Args:
        task: name of the task.
        inputs: tasks and features.
        evaluation: level of the intervals, and the fewest examples of a slice.
        measured: measured values by slice; the empty name is all examples.
        judged: verdict on the task.
    """
    if judged.failures:
        return
    if isinstance(inputs.tasks[task], BinaryTask):
        gated = [bool(gate.slice) for gate in judged.gates if gate.metric == "calibration"]
        yield from _uncalibrated(task, measured, evaluation, of_all=False not in gated, of_slices=True not in gated)
    metric = main_metric(judged)
    yield from _worse(task, metric, judged.direction(metric), measured, evaluation)


def _uncalibrated(
    task: str, measured: Mapping[str, SliceResult], evaluation: Evaluation, *, of_all: bool, of_slices: bool
) -> Iterator[str]:
    ratios = {
        name: result.candidate[task].get("calibration", UNDEFINED)
        for name, result in measured.items()
        if not name or _examples(result, task) >= evaluation.min_slice_examples
    }
    overall = ratios.pop("", UNDEFINED)
    if of_all and is_surely_off(overall):
        yield f"{task}: predicted over observed {shown_ratio(overall)} is beyond {_band()}"
    deviations = _deviations(evaluation.confidence.level, len(ratios))
    slices = [name for name, ratio in ratios.items() if is_surely_off(ratio, deviations)]
    if of_slices and slices:
        slices.sort(key=lambda name: -abs(log(ratios[name].value or 1.0)))
        told = _listed([f"{name} {shown_ratio(ratios[name])}" for name in slices])
        yield (f"{task}: predicted over observed is beyond {_band()} on {len(slices)} of {len(ratios)} slices: {told}")


def _deviations(level: float, slices: int) -> float:
    """Returns how many standard deviations a slice must be off.

    Of many slices some are off by chance: each is judged at a level that holds for all together (Bonferroni).
    """
    return NormalDist().inv_cdf(1 - (1 - level) / 2 / max(1, slices))


def is_surely_off(ratio: Measured, deviations: float = 0.0) -> bool:
    """Returns whether the interval of a ratio is beyond the band, and its logarithm by that many deviations."""
    low, high = CALIBRATED
    if not ratio.value or ratio.lower is None or ratio.upper is None or (low <= ratio.upper and ratio.lower <= high):
        return False
    beyond = log(ratio.value / high) if ratio.value > high else log(low / ratio.value)
    return beyond > deviations * pstdev(log(each) for each in ratio.replicates if isfinite(each) and each > 0)


def _worse(
    task: str, metric: str, better: Direction, measured: Mapping[str, SliceResult], evaluation: Evaluation
) -> Iterator[str]:
    if better == "target":
        return
    changes = {
        name: paired_change(
            result.candidate[task].get(metric, UNDEFINED),
            result.baseline[task].get(metric, UNDEFINED),
            evaluation.confidence.level,
        )
        for name, result in measured.items()
        if task in result.baseline and (not name or _examples(result, task) >= evaluation.min_slice_examples)
    }
    sign = 1.0 if better == "higher" else -1.0
    overall = changes.pop("", UNDEFINED)
    if _is_worse(overall, sign):
        yield f"{task}: {metric} is worse than the last model's: {_signed(overall)}"
        return
    deviations = _deviations(evaluation.confidence.level, len(changes))
    surely = [name for name, change in changes.items() if _is_worse(change, sign, deviations)]
    if surely:
        surely.sort(key=lambda name: sign * (changes[name].value or 0.0))
        told = _listed([f"{name} {_signed(changes[name])}" for name in surely])
        yield f"{task}: {metric} is worse than the last model's on {len(surely)} of {len(changes)} slices: {told}"


def _is_worse(change: Measured, sign: float, deviations: float = 0.0) -> bool:
    """Returns whether the interval of a change has only worse values, and the change exceeds its deviation as often."""
    if change.value is None or change.lower is None or change.upper is None:
        return False
    if max(sign * change.lower, sign * change.upper) >= 0:
        return False
    return -sign * change.value > deviations * pstdev(each for each in change.replicates if isfinite(each))


def _examples(result: SliceResult, task: str) -> float:
    return result.candidate.get(task, {}).get("num_examples", UNDEFINED).value or 0.0


def shown_ratio(ratio: Measured) -> str:
    """Returns a ratio with its interval, if it has one."""
    ends = "" if ratio.lower is None or ratio.upper is None else f" [{ratio.lower:.2f}, {ratio.upper:.2f}]"
    return f"{ratio.value:.2f}{ends}"


def _signed(change: Measured) -> str:
    return f"{change.value:+.4f} [{change.lower:+.4f}, {change.upper:+.4f}]"


def _band() -> str:
    return f"{CALIBRATED[0]:g} to {CALIBRATED[1]:g}"


def _listed(told: Sequence[str]) -> str:
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    return f"{', '.join(told[:_NAMED])}{more}"
