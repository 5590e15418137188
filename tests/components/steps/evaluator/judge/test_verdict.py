"""A verdict as a record and in words, and what reduced rows may cost."""

import json

import pytest

from sangam.components.reports.evaluation import Verdict
from sangam.components.steps.evaluator.judge.judge import judge
from sangam.components.steps.evaluator.judge.reduced_rows import reduced_rows, rows_verdict
from sangam.schemas.contracts.export import TaskLoss
from sangam.schemas.spec.release import Evaluation, Gate
from sangam.schemas.spec.serving import Export
from tests.components.steps.evaluator.judge.sample_measurements import (
    COMPARED,
    INPUTS,
    NO_BASELINE,
    exactly,
    judged,
    metrics,
    slice_of,
)
from tests.errors import mentions
from tests.schemas.sample_exports import sample_report

INT8 = Export(rows="int8", max_auc_loss=0.001)


def test_a_verdict_says_in_words_what_it_is_each_gates_reason_and_what_was_not_checked() -> None:
    gates = [
        {"task": "like", "metric": "auc", "at_least": 0.7, "max_drop": 0.02},
        {"task": "like", "metric": "auc", "slice": {"tab": "home"}, "at_least": 0.6},
    ]
    slices = {"tab=home": slice_of("tab", like=metrics(auc=0.5))}
    told = [
        "refused: 1 of 4",
        "compared with no",
        "pass like: ... 1,000",
        "pass like: auc 0.7500 ... 0.7000",
        "FAIL like: auc of tab=home 0.5000 ... below ... 0.6000",
        "pass watch: ... 1,000",
        "note watch ... no gate",
        "note ... like auc max_drop 0.02",
    ]
    lines = judged(gates, slices).text().splitlines()
    assert len(lines) == len(told)
    assert all(mentions(line, parts) for line, parts in zip(lines, told, strict=True)), lines


def test_a_verdict_says_what_a_calibration_has_changed() -> None:
    of_like = metrics(calibration=1.02, calibration_error=0.004, uncalibrated_calibration=1.3)
    told = judged([], {"": slice_of(like=of_like)}).text().splitlines()
    assert "like: predicted over observed 1.0200, before calibration 1.3000, calibration error 0.0040, " in "\n".join(
        told
    )
    assert not any(line.startswith("watch:") for line in told)


def test_a_blessed_verdict_names_the_model_that_it_was_compared_with() -> None:
    compared = {"": slice_of(blessed=metrics(auc=0.75))}
    verdict = judged({"task": "like", "metric": "auc", "max_drop": 0.0}, compared, baseline=COMPARED)
    assert verdict.text().splitlines()[:2] == ["blessed: all 3 gates held", "compared with models/1"]


def test_a_verdict_holds_intervals_of_every_slice_and_no_replicates() -> None:
    draws = exactly(0.75, *(0.5 + number / 1024 for number in range(100)))
    buckets = [{"mean_prediction": 0.1, "mean_label": 0.2, "num_examples": 100.0}]
    overall = slice_of(like=metrics(auc=draws))
    overall.calibration_buckets["like"] = buckets
    slices = {"": overall, "tab=home": slice_of("tab", like=metrics(auc=draws))}
    verdict = judged({"task": "like", "metric": "auc", "at_least": 0.5}, slices)
    text = verdict.model_dump_json()
    assert len(text) < 3000
    task = Verdict.model_validate_json(text).tasks["like"]
    assert task.intervals == task.slice_intervals["tab=home"] == {"auc": (0.5, 0.5 + 99 / 1024)}
    assert task.metrics["auc"] == task.slices["tab=home"]["auc"] == 0.75
    assert [bucket.model_dump() for bucket in task.calibration_buckets] == buckets


def test_a_verdict_of_before_intervals_is_read() -> None:
    gate = {"kind": "value", "metric": "auc", "bound": 0.7, "value": 0.75, "passed": True, "reason": "fine"}
    task = {"metrics": {"auc": 0.75}, "slices": {}, "gates": [gate]}
    text = json.dumps({"blessed": True, "baseline": None, "notes": [], "tasks": {"like": task}})
    assert Verdict.model_validate_json(text).tasks["like"].intervals == {}


@pytest.mark.parametrize(
    ("like", "watch", "blessed"), [(0.0004, 0.0009, True), (0.002, 0.0, False), (0.0, 0.002, False), (None, 0.0, False)]
)
def test_reduced_rows_may_cost_no_more_than_is_declared(like: float | None, watch: float, blessed: bool) -> None:
    losses = {
        "like": TaskLoss(metric="auc", full=0.75, reduced=None if like is None else 0.75 - like, loss=like),
        "watch": TaskLoss(metric="rmse", full=1.0, reduced=1.0 + watch, loss=watch),
    }
    verdict = judge(
        inputs=INPUTS,
        evaluation=Evaluation(),
        gates=(Gate(task="like", metric="auc", at_least=0.7),),
        baseline=NO_BASELINE,
        measured={"": slice_of()},
        rows=reduced_rows(INT8, sample_report(losses).model_dump_json().encode()),
    )
    assert verdict.blessed is blessed
    rows = {task: judged.gates[1] for task, judged in verdict.tasks.items()}
    assert {gate.kind for gate in rows.values()} == {"rows"}
    if like == 0.002:
        assert mentions(
            rows["like"].reason, "int8 ... auc ... 0.748000 ... 0.750000 ... 0.002000 ... max_auc_loss 0.001"
        )
    if watch == 0.0009:
        assert mentions(
            rows["watch"].reason, "int8 ... rmse ... 1.000900 ... 1.000000 ... 0.000900 ... max_auc_loss 0.001"
        )
    if like is None:
        assert mentions(rows["like"].reason, "int8 ... auc ... undefined")


def test_reduced_rows_that_nobody_measured_are_refused_and_full_rows_need_no_measurement() -> None:
    assert reduced_rows(Export(), None) is None
    unmeasured = reduced_rows(INT8, None)
    assert unmeasured is not None
    verdict = rows_verdict(unmeasured, "like", INPUTS.tasks["like"])
    assert not verdict.passed
    assert mentions(verdict.reason, "int8 ... auc ... no measurement")
