"""The sentences of a verdict, and that none of them may contradict TFMA."""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def judged(
    auc: float, *, at_least: float, tfma_says: bool, difference: float | None = None, with_ungated_task: bool = False
) -> Any:
    """Returns the verdict on one task, from messages like those that TFMA writes."""
    from tensorflow_model_analysis.proto import metrics_for_slice_pb2, validation_result_pb2

    from components.evaluator.verdict import Baseline, judge
    from schemas.release import AucGate, Evaluation
    from schemas.spec import Inputs

    message = metrics_for_slice_pb2.MetricsForSlice()
    if with_ungated_task:
        entry = message.metric_keys_and_values.add()
        entry.key.name, entry.key.output_name, entry.key.model_name = "auc", "share", "candidate"
    values = [("candidate", False, auc)]
    if difference is not None:
        values += [("baseline", False, auc - difference), ("candidate", True, difference)]
    for model, is_diff, value in values:
        entry = message.metric_keys_and_values.add()
        entry.key.name, entry.key.output_name, entry.key.model_name, entry.key.is_diff = "auc", "like", model, is_diff
        entry.value.double_value.value = value
    validation = validation_result_pb2.ValidationResult(validation_ok=tfma_says)
    if not tfma_says:
        failure = validation.metric_validations_per_slice.add().failures.add()
        failure.metric_key.name, failure.metric_key.output_name = "auc", "like"
        failure.metric_key.is_diff = auc >= at_least
    baseline = Baseline(uri="models/1", tasks=frozenset({"like"} if difference is not None else ()), problem="none yet")
    tasks = {task: {"kind": "binary"} for task in (["like", "share"] if with_ungated_task else ["like"])}
    return judge(
        inputs=Inputs.model_validate_json(json.dumps({"features": {"x": {"kind": "numeric"}}, "tasks": tasks})),
        evaluation=Evaluation(),
        gates=(AucGate(metric="auc", task="like", at_least=at_least, max_drop=0.02),),
        baseline=baseline,
        metrics=[message],
        validation=validation,
    )


@pytest.mark.parametrize(("auc", "says"), [(0.75, False), (0.65, True)])
def test_a_reason_that_contradicts_tfma_is_an_error(auc: float, says: bool) -> None:
    with pytest.raises(RuntimeError, match="contradicts TFMA"):
        judged(auc, at_least=0.7, tfma_says=says)


@pytest.mark.parametrize(
    ("auc", "difference", "reason"),
    [
        (0.742, -0.031, "auc 0.7420 is 0.0310 below the blessed model's 0.7730, more than max_drop 0.0200"),
        (0.742, -0.01, "auc 0.7420 is 0.0100 below the blessed model's 0.7520, within max_drop 0.0200"),
        (0.742, 0.0, "auc 0.7420 equals the blessed model's 0.7420"),
        (0.742, 0.01, "auc 0.7420 is 0.0100 above the blessed model's 0.7320"),
    ],
)
def test_a_change_is_told_in_a_sentence(auc: float, difference: float, reason: str) -> None:
    verdict = judged(auc, at_least=0.7, tfma_says=difference >= -0.02, difference=difference)
    assert verdict.tasks["like"].gates[1].reason == reason
    assert verdict.baseline == "models/1"
    assert verdict.notes == []


def test_a_near_miss_shows_the_digits_that_tell() -> None:
    verdict = judged(0.69999, at_least=0.7, tfma_says=False)
    assert verdict.tasks["like"].gates[0].reason == "auc 0.699990 is below the bound 0.700000"
    assert verdict.notes == ["none yet: like auc max_drop 0.02 was not checked"]


def test_a_task_without_a_gate_is_not_passed_in_silence() -> None:
    verdict = judged(0.75, at_least=0.7, tfma_says=True, difference=0.0, with_ungated_task=True)
    assert verdict.notes == ["share has no gate: it was not judged"]
    assert verdict.tasks["share"].gates == []
