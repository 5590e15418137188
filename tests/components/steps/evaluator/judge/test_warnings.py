"""What a verdict warns of that no gate refuses."""

from tests.components.steps.evaluator.judge.sample_measurements import COMPARED, exactly, judged, metrics, slice_of
from tests.errors import mentions

GATE = {"task": "like", "metric": "auc", "at_least": 0.6}
LAST = metrics(auc=exactly(0.76, 0.75, 0.76, 0.77))


def test_every_task_is_shown_beside_the_last_model_whatever_its_gates_ask() -> None:
    own = metrics(auc=exactly(0.77, 0.76, 0.78, 0.78), log_loss=0.5)
    verdict = judged(GATE, {"": slice_of(like=own, blessed=LAST)}, baseline=COMPARED)
    like = verdict.tasks["like"]
    change = like.differences["auc"]
    assert (like.baseline, round(change.value, 4)) == ({"auc": 0.76}, 0.01)
    assert change.lower is not None
    assert change.upper is not None
    assert 0.01 <= round(change.lower, 4) <= round(change.upper, 4) <= 0.02
    assert verdict.warnings == []


def test_a_model_that_is_surely_worse_than_the_last_is_blessed_with_a_warning() -> None:
    own = metrics(auc=exactly(0.74, 0.73, 0.74, 0.75))
    verdict = judged(GATE, {"": slice_of(like=own, blessed=LAST)}, baseline=COMPARED)
    assert verdict.blessed
    assert verdict.warnings == ["like: auc is worse than the last model's: -0.0200 [-0.0200, -0.0200]"]
    unsure = metrics(auc=exactly(0.74, 0.70, 0.77, 0.78))
    assert judged(GATE, {"": slice_of(like=unsure, blessed=LAST)}, baseline=COMPARED).warnings == []


def test_lower_errors_are_better() -> None:
    last = metrics(rmse=exactly(1.0, 0.9, 1.0, 1.1))
    for own, number in ((exactly(1.2, 1.1, 1.2, 1.3), 1), (exactly(0.8, 0.7, 0.8, 0.9), 0)):
        slices = {"": slice_of(watch=metrics(rmse=own), blessed_watch=last)}
        assert len(judged(GATE, slices, baseline=COMPARED).warnings) == number


def test_predictions_that_are_surely_off_are_warned_of_unless_a_gate_bounds_them() -> None:
    off = metrics(auc=0.75, calibration=exactly(1.4, 1.3, 1.4, 1.5))
    slices = {
        "": slice_of(like=off),
        "tab=a": slice_of("tab", like=metrics(auc=0.75, calibration=exactly(1.6, 1.5, 1.6, 1.7))),
        "tab=chance": slice_of("tab", like=off),
        "tab=b": slice_of("tab", like=metrics(auc=0.75, calibration=exactly(1.4, 1.2, 1.4, 1.6))),
        "tab=few": slice_of("tab", like=metrics(num_examples=9, calibration=exactly(9.0, 8.0, 9.0, 10.0))),
    }
    assert judged(GATE, slices).warnings == [
        "like: predicted over observed 1.40 [1.30, 1.50] is beyond 0.8 to 1.25",
        "like: predicted over observed is beyond 0.8 to 1.25 on 1 of 3 slices: tab=a 1.60 [1.50, 1.70]",
    ]
    bounded = {"task": "like", "metric": "calibration", "at_least": 0.1, "at_most": 2}
    [of_slices] = judged([GATE, bounded], slices).warnings
    assert mentions(of_slices, "1 of 3 slices ... tab=a")
    assert judged([GATE, bounded, bounded | {"each": ["tab"]}], slices).warnings == []


def test_a_slice_is_worse_only_at_a_level_that_holds_for_all_slices_together() -> None:
    like = metrics(auc=exactly(0.74, *(0.74 + 0.001 * step for step in range(-2, 3))))
    last = metrics(auc=exactly(0.76, *([0.76] * 5)))
    little = metrics(auc=exactly(0.757, *(0.757 + 0.001 * step for step in range(-2, 3))))
    same = {"": slice_of(), "tab=a": slice_of("tab", like=like, blessed=last)}
    others = {f"tab={name}": slice_of("tab", like=little, blessed=last) for name in "bcdefgh"}
    warned = "like: auc is worse than the last model's on 1 of 8 slices: tab=a -0.0200 [-0.0220, -0.0180]"
    told = judged(GATE, {**same, **others}, baseline=COMPARED).warnings
    assert [each.partition(" slices: ")[2].split(" ")[0] for each in told] == ["tab=a"], warned


def test_a_refused_task_says_why_and_is_not_warned_of() -> None:
    off = metrics(auc=0.5, calibration=exactly(1.4, 1.3, 1.4, 1.5))
    assert judged(GATE, {"": slice_of(like=off)}).warnings == []
