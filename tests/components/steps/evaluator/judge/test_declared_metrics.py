"""A metric that the spec declares, in gates, differences, warnings and headlines."""

from typing import Any

from sangam.components.reports.evaluation import TaskVerdict
from sangam.components.reports.headline import headline_of
from sangam.schemas.parts.importing import import_part
from tests.components.steps.evaluator.judge.sample_measurements import (
    COMPARED,
    declared,
    exactly,
    judged,
    metrics,
    slice_of,
)
from tests.errors import mentions

import_part("tests.components.sample_parts")

EVALUATION: dict[str, Any] = {
    "metrics": {
        "f_half": {"kind": "f_beta", "beta": 0.5},
        "surprise": {"kind": "surprise"},
        "squares": {"kind": "mean_squared"},
    }
}
LAST = metrics(f_half=exactly(0.5, 0.49, 0.5, 0.51), surprise=exactly(0.4, 0.39, 0.4, 0.41))


def test_a_gate_bounds_a_declared_metric_and_its_change_in_its_direction() -> None:
    own = metrics(f_half=exactly(0.45, 0.44, 0.45, 0.46), surprise=exactly(0.5, 0.49, 0.5, 0.51))
    gates = [
        {"task": "like", "metric": "f_half", "at_least": 0.3, "max_drop": 0.01},
        {"task": "like", "metric": "surprise", "at_most": 0.6, "max_rise": 0.2, "min_gain": 0.0},
    ]
    verdict = judged(gates, {"": slice_of(like=own, blessed=LAST)}, baseline=COMPARED, evaluation=EVALUATION)
    told = [(gate.metric, gate.kind, gate.passed, round(gate.value or 0, 2)) for gate in declared(verdict)]
    assert told == [
        ("f_half", "value", True, 0.45),
        ("f_half", "change", False, 0.05),
        ("surprise", "value", True, 0.5),
        ("surprise", "change", True, 0.1),
        ("surprise", "gain", False, -0.1),
    ]
    like = verdict.tasks["like"]
    assert round(like.differences["f_half"].value, 2) == -0.05
    assert like.directions == {"f_half": "higher", "surprise": "lower", "squares": "lower"}
    assert verdict.tasks["watch"].directions == {"squares": "lower"}


def test_the_headline_is_a_declared_metric_that_a_gate_bounds_also_after_it_was_stored() -> None:
    own = metrics(surprise=exactly(0.5, 0.49, 0.5, 0.51))
    gate = {"task": "like", "metric": "surprise", "at_most": 0.6}
    slices = {"": slice_of(like=own, blessed=LAST)}
    verdict = judged(gate, slices, baseline=COMPARED, evaluation=EVALUATION)
    assert verdict.warnings == ["like: surprise is worse than the last model's: +0.1000 [+0.1000, +0.1000]"]
    for task in (verdict.tasks["like"], TaskVerdict.model_validate_json(verdict.tasks["like"].model_dump_json())):
        row = headline_of(task)
        assert (row.metric, row.bound_text, row.tone) == ("surprise", "at most 0.6", "bad")


def test_an_undefined_value_fails_with_a_reason_and_slices_of_one_class_are_left_out() -> None:
    gate = {"task": "like", "metric": "f_half", "each": ["tab"], "at_least": 0.3}
    slices = {
        "tab=home": slice_of("tab", like=metrics(f_half=0.4)),
        "tab=none": slice_of("tab", like=metrics(f_half=None, mean_label=0.0)),
        "tab=odd": slice_of("tab", like=metrics(f_half=None)),
    }
    verdict = judged(gate, slices, evaluation=EVALUATION)
    assert [(each.slice, each.passed) for each in declared(verdict)] == [("tab=odd", False), ("tab=home", True)]
    assert mentions(
        declared(verdict)[0].reason, "f_half of tab=odd is undefined: ... 1,000 examples is no finite number"
    )
    assert any(mentions(note, "like f_half ... tab=none") for note in verdict.notes)


def test_a_regression_with_a_mean_of_1_is_no_single_class() -> None:
    gate = {"task": "watch", "metric": "squares", "at_most": 2.0}
    odd = metrics(rmse=1.0, squares=None, mean_label=1.0)
    [verdict] = declared(judged(gate, {"": slice_of(watch=odd)}, evaluation=EVALUATION), "watch")
    assert mentions(verdict.reason, "squares is undefined: ... no finite number")
