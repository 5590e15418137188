"""The judge alone: which values pass a gate, and what it says of them."""

from typing import Any

import pytest

from sangam.components.steps.evaluator.metrics.measured import Measured
from sangam.schemas.errors import UserError
from tests.components.steps.evaluator.judge.sample_measurements import declared, exactly, judged, metrics, slice_of
from tests.errors import mentions

AUC = {"task": "like", "metric": "auc"}
TASK = {"auc": "like", "log_loss": "like", "calibration": "like", "rmse": "watch"}


def on_all(metric: str, value: float | Measured | None) -> dict[str, Any]:
    found = {TASK[metric]: metrics(**{metric: value})}
    return {"": slice_of(**found)}


@pytest.mark.parametrize(
    ("metric", "bounds", "value", "passed", "reason"),
    [
        ("auc", {"at_least": 0.7}, 0.75, True, "auc 0.7500 ... 0.7000"),
        ("auc", {"at_least": 0.7}, 0.7, True, "auc 0.7000 ... 0.7000"),
        ("auc", {"at_least": 0.7}, 0.65, False, "auc 0.6500 ... below ... 0.7000"),
        ("auc", {"at_least": 0.7}, 0.69999, False, "auc 0.699990 ... below ... 0.700000"),
        ("log_loss", {"at_most": 0.5}, 0.4, True, "log_loss 0.4000 ... 0.5000"),
        ("rmse", {"at_most": 2.0}, 2.5, False, "rmse 2.5000 ... above ... 2.0000"),
        (
            "calibration",
            {"at_least": 0.9, "at_most": 1.1},
            1.0,
            True,
            "calibration 1.0000 ... 0.9000 to 1.1000",
        ),
        (
            "calibration",
            {"at_least": 0.9, "at_most": 1.1},
            0.85,
            False,
            "calibration 0.8500 ... below ... 0.9000 to 1.1000",
        ),
        (
            "calibration",
            {"at_least": 0.9, "at_most": 1.1},
            1.2,
            False,
            "calibration 1.2000 ... above ... 0.9000 to 1.1000",
        ),
    ],
)
def test_a_value_against_its_bound(
    metric: str, bounds: dict[str, float], value: float, passed: bool, reason: str
) -> None:
    verdict = judged({"task": TASK[metric], "metric": metric, **bounds}, on_all(metric, value))
    [gate] = declared(verdict, TASK[metric])
    assert (gate.kind, gate.value, gate.passed) == ("value", value, passed)
    assert mentions(gate.reason, reason)
    assert verdict.blessed is passed
    assert (gate.bound, gate.upper_bound) == (
        (bounds["at_least"], bounds["at_most"]) if len(bounds) == 2 else (*bounds.values(), None)
    )


@pytest.mark.parametrize(
    ("metric", "bounds", "interval", "passed", "reason"),
    [
        (
            "auc",
            {"at_least": 0.7},
            (0.75, 0.69, 0.8),
            False,
            "lower ... 0.6900 ... 95 % ... auc 0.7500 ... below ... 0.7000",
        ),
        (
            "auc",
            {"at_least": 0.7},
            (0.75, 0.72, 0.8),
            True,
            "lower ... 0.7200 ... 95 % ... auc 0.7500 ... 0.7000",
        ),
        (
            "rmse",
            {"at_most": 2.0},
            (1.9, 1.8, 2.1),
            False,
            "upper ... 2.1000 ... 95 % ... rmse 1.9000 ... above ... 2.0000",
        ),
        (
            "calibration",
            {"at_least": 0.9, "at_most": 1.1},
            (1.0, 0.95, 1.15),
            False,
            "upper ... 1.1500 ... 95 % ... calibration 1.0000 ... above ... 0.9000 to 1.1000",
        ),
        (
            "calibration",
            {"at_least": 0.9, "at_most": 1.1},
            (1.0, 0.92, 1.05),
            True,
            "lower ... 0.9200 ... 95 % ... calibration 1.0000 ... 0.9000 to 1.1000",
        ),
    ],
)
def test_judged_by_its_bound_the_worse_end_of_the_interval_must_hold(
    metric: str, bounds: dict[str, float], interval: tuple[float, ...], passed: bool, reason: str
) -> None:
    gate = {"task": TASK[metric], "metric": metric, **bounds}
    [by_bound] = declared(judged(gate | {"judge": "bound"}, on_all(metric, exactly(*interval))), TASK[metric])
    assert (by_bound.passed, by_bound.judge) == (passed, "bound")
    assert mentions(by_bound.reason, reason)
    assert (by_bound.value, by_bound.lower, by_bound.upper) == interval
    [by_point] = declared(judged(gate, on_all(metric, exactly(*interval))), TASK[metric])
    assert by_point.passed


def test_a_bound_without_an_interval_is_refused() -> None:
    [gate] = declared(judged(AUC | {"at_least": 0.7, "judge": "bound"}, on_all("auc", 0.9)))
    assert not gate.passed
    assert mentions(gate.reason, "auc 0.9000 ... no confidence interval")


@pytest.mark.parametrize(
    ("gate", "value", "reason"),
    [
        ({"slice": {"tab": "home"}}, 0.5, "auc of tab=home 0.5000 ... below ... 0.6000"),
        ({"slice": {"tab": "home"}}, 0.7, "auc of tab=home 0.7000 ... 0.6000"),
        ({"new_id": "user"}, 0.5, "auc of new user 0.5000 ... below ... 0.6000"),
        (
            {"slice": {"tab": "home", "language": "hi"}},
            0.5,
            "auc of language=hi,tab=home 0.5000 ... below ... 0.6000",
        ),
    ],
)
def test_a_gate_on_a_slice_judges_the_slice_alone(gate: dict[str, Any], value: float, reason: str) -> None:
    features = [name for name in gate.get("slice", {})]
    name = reason[len("auc of ") :].split(" 0.")[0]
    verdict = judged(
        AUC | gate | {"at_least": 0.6},
        {name: slice_of(*features, like=metrics(auc=value))},
        evaluation={"slices": [["language", "tab"], ["tab"]]},
    )
    [found] = declared(verdict)
    assert (found.slice, found.passed) == (name, value >= 0.6)
    assert mentions(found.reason, reason)
    assert verdict.blessed is (value >= 0.6)


def test_a_bad_slice_refuses_a_model_that_is_fine_overall() -> None:
    slices = {"tab=home": slice_of("tab", like=metrics(auc=0.5))}
    verdict = judged([AUC | {"at_least": 0.7}, AUC | {"slice": {"tab": "home"}, "at_least": 0.6}], slices)
    assert [gate.passed for gate in declared(verdict)] == [True, False]
    assert not verdict.blessed


EACH = AUC | {"each": ["tab"], "at_least": 0.6}


def tabs(**aucs: float) -> dict[str, Any]:
    return {f"tab={tab}": slice_of("tab", like=metrics(auc=auc)) for tab, auc in aucs.items()}


def test_each_slice_is_judged_and_those_that_hold_are_told_together() -> None:
    others = {"language=hi": slice_of("language", like=metrics(auc=0.1)), "new user": slice_of(like=metrics(auc=0.1))}
    verdict = judged(EACH, tabs(a=0.8, b=0.65, c=0.7) | others)
    [gate] = declared(verdict)
    assert (gate.slice, gate.passed, gate.value) == ("each tab", True, 0.65)
    assert mentions(gate.reason, "3 of 3 ... tab=b 0.6500 ... 0.6000")


def test_of_each_slice_every_failure_is_told_worst_first() -> None:
    verdict = judged(EACH, tabs(a=0.8, b=0.55, c=0.5, d=0.6))
    gates = declared(verdict)
    assert [(gate.slice, gate.passed) for gate in gates] == [
        ("tab=c", False),
        ("tab=b", False),
        ("each tab", True),
    ]
    assert mentions(gates[2].reason, "2 of 4 ... tab=d")


def test_of_many_failing_slices_the_worst_are_named_and_the_rest_counted() -> None:
    verdict = judged(EACH, tabs(**{f"t{number:02d}": number / 100 for number in range(30)}))
    gates = declared(verdict)
    assert [gate.slice for gate in gates[:2]] == ["tab=t00", "tab=t01"]
    assert (len(gates), gates[-1].slice, gates[-1].passed) == (21, "each tab", False)
    assert mentions(gates[-1].reason, "10 more ... tab")


def test_a_slice_with_too_few_examples_is_not_judged_and_that_is_said() -> None:
    slices = tabs(a=0.8) | {"tab=b": slice_of("tab", like=metrics(99, auc=0.1))}
    verdict = judged(EACH, slices)
    assert verdict.blessed
    [note] = verdict.notes[1:]
    assert mentions(note, "like auc ... min_slice_examples 100: tab=b (99)")
    assert not judged(EACH, slices, evaluation={"min_slice_examples": 99}).blessed


def test_all_examples_together_are_judged_however_few() -> None:
    assert not judged(AUC | {"at_least": 0.7}, {"": slice_of(like=metrics(5, auc=0.5))}).blessed


def test_of_many_small_slices_some_are_named() -> None:
    slices = {f"tab=t{number}": slice_of("tab", like=metrics(3, auc=0.1)) for number in range(8)}
    note = judged(EACH, slices).notes[1]
    assert note.endswith("tab=t0 (3), tab=t1 (3), tab=t2 (3), tab=t3 (3), tab=t4 (3) and 3 more")


@pytest.mark.parametrize(
    ("gate", "note"),
    [
        ({"slice": {"tab": "shop"}}, "like auc of tab=shop"),
        ({"each": ["tab", "language"]}, "like auc of each tab,language"),
        ({"new_id": "user"}, "like auc of new user"),
    ],
)
def test_a_slice_that_never_occurred_is_said(gate: dict[str, Any], note: str) -> None:
    verdict = judged(AUC | {"at_least": 0.6, **gate}, tabs(home=0.8))
    assert declared(verdict) == []
    [said] = verdict.notes[1:]
    assert mentions(said, f"{note} ... no example")


def test_a_model_that_does_not_tell_new_ids_is_said_not_to() -> None:
    verdict = judged(AUC | {"at_least": 0.6, "new_id": "user"}, {}, known_id_features=())
    [note] = verdict.notes[1:]
    assert mentions(note, "like auc of new user ... known_ids")


def test_labels_of_one_class_fail_all_examples_but_are_said_of_a_slice() -> None:
    one_class = metrics(150, auc=None, mean_label=0.0)
    [gate] = declared(judged(AUC | {"at_least": 0.0}, {"": slice_of(like=one_class)}))
    assert not gate.passed
    assert mentions(gate.reason, "auc ... undefined ... 150 labels are 0")
    verdict = judged(EACH, tabs(a=0.8) | {"tab=b": slice_of("tab", like=one_class)})
    assert verdict.blessed
    [note] = verdict.notes[1:]
    assert mentions(note, "like auc ... tab=b (150 labels of mean 0)")


def test_gauc_without_a_group_of_both_classes_is_told_so() -> None:
    gate = {"task": "like", "metric": "gauc", "at_least": 0.5}
    [verdict] = declared(judged(gate, {"": slice_of(like=metrics(gauc=None, num_groups=0.0))}))
    assert mentions(verdict.reason, "gauc ... undefined ... group")


def test_predictions_that_are_no_numbers_are_refused_before_all_else_whatever_is_declared() -> None:
    # The task has no gate at all.
    bad = metrics(200, auc=None, non_finite=0.05)
    verdict = judged({"task": "watch", "metric": "rmse", "at_most": 2.0}, {"": slice_of(like=bad)})
    [gate] = verdict.tasks["like"].gates
    assert (gate.kind, gate.passed, gate.value) == ("finite", False, 0.05)
    assert mentions(gate.reason, "10 of 200 ... NaN")
    assert not verdict.blessed


@pytest.mark.parametrize(
    ("of_weights", "reason"),
    [
        ({"sum_of_weights": 0.0}, "weights of all 1,000"),
        ({"sum_of_weights": 3.0, "weighted_mean_label": 0.0}, "labels ... weight over 0"),
        ({"sum_of_weights": 3.0, "weighted_mean_label": 0.0, "mean_label": 0.0}, "all 1,000 labels are 0"),
    ],
)
def test_a_weighted_metric_without_contrast_among_the_weights_refuses_and_says_why(
    of_weights: dict[str, float], reason: str
) -> None:
    of_slices = {"": slice_of(like=metrics(auc=0.75, weighted_auc=None, **of_weights))}
    [verdict] = declared(judged({"task": "like", "metric": "weighted_auc", "at_least": 0.5}, of_slices))
    assert not verdict.passed
    assert mentions(verdict.reason, f"weighted_auc ... undefined ... {reason}")


def test_a_metric_undefined_by_bad_predictions_gives_that_reason_even_on_a_slice_of_one_class() -> None:
    bad = metrics(200, auc=None, non_finite=1.0, mean_label=0.0)
    verdict = judged(EACH, {"": slice_of(like=bad), "tab=a": slice_of("tab", like=bad)})
    assert [gate.kind for gate in verdict.tasks["like"].gates] == ["finite", "value"]
    assert mentions(declared(verdict)[0].reason, "auc of tab=a ... undefined ... 200 of 200")


def test_a_task_in_which_no_example_takes_part_is_refused_with_that_reason() -> None:
    none = metrics(0, auc=None, non_finite=None, mean_label=None)
    verdict = judged(AUC | {"at_least": 0.0}, {"": slice_of(like=none)})
    finite, value = verdict.tasks["like"].gates
    assert mentions(finite.reason, "no example")
    assert mentions(value.reason, "auc ... undefined ... no example")
    assert not verdict.blessed


def test_a_task_without_a_gate_is_not_passed_in_silence() -> None:
    verdict = judged(AUC | {"at_least": 0.7}, {})
    [note] = verdict.notes
    assert mentions(note, "watch ... no gate")
    assert [gate.kind for gate in verdict.tasks["watch"].gates] == ["finite"]


def test_no_examples_is_an_error() -> None:
    from sangam.components.steps.evaluator.judge.judge import judge
    from sangam.schemas.spec.release import Evaluation
    from tests.components.steps.evaluator.judge.sample_measurements import INPUTS, NO_BASELINE

    with pytest.raises(UserError, match="no example"):
        judge(inputs=INPUTS, evaluation=Evaluation(), gates=(), baseline=NO_BASELINE, measured={})
