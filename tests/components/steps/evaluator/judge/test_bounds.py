"""The judge on changes against the blessed model: by their value, and by the interval of the paired differences."""

from typing import Any

import pytest

from sangam.components.steps.evaluator.metrics.measured import UNDEFINED, Measured
from tests.components.steps.evaluator.judge.sample_measurements import (
    COMPARED,
    declared,
    exactly,
    judged,
    metrics,
    slice_of,
)
from tests.errors import mentions

AUC = {"task": "like", "metric": "auc"}
TASK = {"auc": "like", "log_loss": "like", "rmse": "watch"}


def changed(metric: str, ours: Measured, theirs: Measured) -> dict[str, Any]:
    task = TASK[metric]
    blessed = "blessed" if task == "like" else "blessed_watch"
    return {"": slice_of(**{task: metrics(**{metric: ours}), blessed: metrics(**{metric: theirs})})}


@pytest.mark.parametrize(
    ("metric", "bounds", "ours", "theirs", "passed", "value", "reason"),
    [
        (
            "auc",
            {"max_drop": 0.02},
            0.742,
            0.773,
            False,
            0.031,
            "auc 0.7420 ... 0.0310 below ... 0.7730 ... max_drop 0.0200",
        ),
        (
            "auc",
            {"max_drop": 0.02},
            0.742,
            0.752,
            True,
            0.01,
            "auc 0.7420 ... 0.0100 below ... 0.7520 ... max_drop 0.0200",
        ),
        (
            "auc",
            {"max_drop": 0.02},
            0.742,
            0.742016,
            True,
            0.000016,
            "auc 0.7420 ... 0.000016 below ... 0.7420 ... max_drop 0.020000",
        ),
        ("auc", {"max_drop": 0.02}, 0.742, 0.742, True, 0.0, "auc 0.7420 ... 0.7420"),
        (
            "auc",
            {"max_drop": 0.02},
            0.742,
            0.732,
            True,
            -0.01,
            "auc 0.7420 ... 0.0100 above ... 0.7320",
        ),
        (
            "rmse",
            {"max_rise": 0.1},
            1.3,
            1.0,
            False,
            0.3,
            "rmse 1.3000 ... 0.3000 above ... 1.0000 ... max_rise 0.1000",
        ),
        (
            "auc",
            {"min_gain": 0.01},
            0.742,
            0.741,
            False,
            0.001,
            "auc 0.7420 ... 0.0010 above ... 0.7410 ... min_gain 0.0100",
        ),
        (
            "log_loss",
            {"min_gain": 0.01},
            0.40,
            0.42,
            True,
            0.02,
            "log_loss 0.4000 ... 0.0200 below ... 0.4200 ... min_gain 0.0100",
        ),
        (
            "log_loss",
            {"min_gain": 0.0},
            0.42,
            0.42,
            True,
            0.0,
            "log_loss 0.4200 ... 0.4200 ... min_gain 0.0000",
        ),
    ],
)
def test_a_change_against_the_blessed_model(
    metric: str, bounds: dict[str, float], ours: float, theirs: float, passed: bool, value: float, reason: str
) -> None:
    gate = {"task": TASK[metric], "metric": metric, **bounds}
    verdict = judged(gate, changed(metric, exactly(ours), exactly(theirs)), baseline=COMPARED)
    [change] = declared(verdict, TASK[metric])
    assert change.kind == ("gain" if "min_gain" in bounds else "change")
    assert change.value == pytest.approx(value)
    assert change.passed is passed
    assert mentions(change.reason, reason)
    assert (verdict.baseline, verdict.notes[1:]) == ("models/1", [])


def test_a_change_judged_by_its_bound_looks_at_the_paired_differences() -> None:
    # Both models rise and fall with the draw of the examples; the difference hardly does.
    ours, theirs = exactly(0.75, 0.70, 0.75, 0.80), exactly(0.76, 0.705, 0.76, 0.815)
    gate = AUC | {"max_drop": 0.012, "judge": "bound"}
    [change] = declared(judged(gate, changed("auc", ours, theirs), baseline=COMPARED))
    assert change.lower is not None
    assert change.upper is not None
    assert 0.005 <= change.lower < 0.01 < 0.012 < change.upper <= 0.015
    assert not change.passed
    assert mentions(
        change.reason, f"auc 0.7500 ... 0.0100 below ... 0.7600 ... 95 % ... {change.upper:.4f} ... max_drop 0.0120"
    )
    [by_point] = declared(judged(gate | {"judge": "point"}, changed("auc", ours, theirs), baseline=COMPARED))
    assert by_point.passed


def test_a_gain_judged_by_its_bound_must_be_sure() -> None:
    ours, theirs = exactly(0.77, 0.78, 0.77, 0.75), exactly(0.76, 0.76, 0.76, 0.76)
    [gain] = declared(
        judged(AUC | {"min_gain": 0.0, "judge": "bound"}, changed("auc", ours, theirs), baseline=COMPARED)
    )
    assert not gain.passed
    assert gain.lower is not None
    assert gain.lower < 0
    assert mentions(gain.reason, f"{-gain.lower:.4f} ... min_gain 0.0000")


def test_a_bound_and_a_change_of_one_gate_are_two_verdicts() -> None:
    gate = AUC | {"at_least": 0.7, "max_drop": 0.02, "min_gain": 0.0}
    gates = declared(judged(gate, changed("auc", exactly(0.75), exactly(0.76)), baseline=COMPARED))
    assert [(verdict.kind, verdict.passed) for verdict in gates] == [
        ("value", True),
        ("change", True),
        ("gain", False),
    ]


def test_without_a_baseline_a_change_is_said_not_to_be_checked() -> None:
    verdict = judged(AUC | {"at_least": 0.7, "max_drop": 0.02, "min_gain": 0.0}, {})
    assert [gate.kind for gate in declared(verdict)] == ["value"]
    dropped, gained = verdict.notes[1:]
    assert mentions(dropped, "like auc max_drop 0.02")
    assert mentions(gained, "like auc min_gain 0")


def test_a_blessed_model_whose_metric_is_undefined_is_no_pass() -> None:
    [change] = declared(judged(AUC | {"max_drop": 0.02}, changed("auc", exactly(0.7), UNDEFINED), baseline=COMPARED))
    assert not change.passed
    assert mentions(change.reason, "blessed ... auc ... undefined")
