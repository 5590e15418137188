"""What a verdict notes of calibration, and of ids that are all new to the model."""

import pytest

from sangam.components.steps.evaluator.metrics.measured import Measured, SliceResult
from tests.components.steps.evaluator.judge.sample_measurements import exactly, judged, metrics, slice_of
from tests.errors import mentions

GATES = [{"task": "like", "metric": "auc", "at_least": 0.6}, {"task": "watch", "metric": "rmse", "at_most": 9.0}]


def of_like(calibration: Measured | float | None, **others: float) -> dict[str, SliceResult]:
    return {"": slice_of(like=metrics(auc=0.75, calibration=calibration, **others))}


@pytest.mark.parametrize(("calibration", "told"), [(0.89, 1), (0.9, 0), (1.1, 0), (1.11, 1), (None, 0)])
def test_predictions_beyond_a_tenth_of_the_labels_are_noted(calibration: float | None, told: int) -> None:
    verdict = judged(GATES, of_like(calibration))
    assert verdict.blessed
    assert [mentions(note, f"like ... {calibration:.2f} ... 0.9 to 1.1") for note in verdict.notes] == [True] * told


def test_what_a_warning_or_a_gate_says_is_not_noted_too() -> None:
    surely = of_like(exactly(1.5, 1.4, 1.5, 1.6))
    verdict = judged(GATES, surely)
    assert (len(verdict.warnings), verdict.notes) == (1, [])
    band = {"task": "like", "metric": "calibration", "at_least": 0.9, "at_most": 1.6}
    assert judged([*GATES, band], surely).notes == []
    # A refused task has no warnings.
    [refused] = judged([GATES[1], GATES[0] | {"at_least": 0.9}], surely).notes
    assert mentions(refused, "1.50 [1.40, 1.60]")


def test_a_regression_has_no_band_for_its_mean_may_be_about_nothing() -> None:
    watch = {"": slice_of(watch=metrics(rmse=1.0, calibration=7.0))}
    assert judged(GATES, watch).notes == []


@pytest.mark.parametrize(("new", "is_told"), [(1000, True), (980, True), (979, False)])
def test_ids_that_are_new_to_the_model_in_nearly_all_examples_are_noted(new: int, is_told: bool) -> None:
    slices = of_like(1.0) | {"new user": slice_of(like=metrics(num_examples=new)), "new tab": slice_of(like=metrics(9))}
    told = judged(GATES, slices).notes
    assert [mentions(note, f"user ... {new:,} of 1,000") for note in told] == [True] * is_told


def test_few_examples_say_nothing_of_ids() -> None:
    few = {"": slice_of(like=metrics(99, auc=0.75), watch=metrics(99, rmse=1.0))}
    assert judged(GATES, few | {"new user": slice_of(like=metrics(99))}).notes == []


def test_calibration_stands_in_the_text_of_every_verdict() -> None:
    text = judged(GATES, of_like(1.02, calibration_error=0.004)).text()
    assert "like: predicted over observed 1.0200, calibration error 0.0040\n" in text
