"""Metrics and curves in the form of Kubeflow's SDK."""

import math

import pytest

from sangam.components.reports.curves import Curve
from sangam.components.reports.evaluation import TaskVerdict
from sangam.components.steps.reporter.metrics import metrics_of, roc
from tests.components.record.sample_records import gate, record

CURVE = Curve(
    false_positive_rate=[0.0, 1.0],
    true_positive_rate=[0.0, 1.0],
    precision=[1.0, 0.5],
    score_edges=[0.1, 0.4, 0.9],
    negatives=[3.0, 1.0],
    positives=[2.0, 6.0],
)


def test_a_curve_has_the_rates_at_each_threshold() -> None:
    assert [tuple(point.values()) for point in roc(CURVE)] == [(0.9, 0.0, 0.0), (0.4, 0.25, 0.75), (0.1, 1.0, 1.0)]
    assert roc(CURVE.model_copy(update={"positives": [0.0, 0.0]})) == []


@pytest.mark.slow
def test_a_curve_is_what_the_sdk_logs_and_types_have_its_titles() -> None:
    from kfp import dsl

    from sangam.components.page import artifact

    points, logged = roc(CURVE), dsl.ClassificationMetrics()
    logged.log_roc_curve(
        *([point[key] for point in points] for key in ("falsePositiveRate", "recall", "confidenceThreshold"))
    )
    assert logged.metadata == {"confidenceMetrics": points}
    for name in ("HTML", "Metrics", "ClassificationMetrics"):
        theirs = getattr(dsl, name)
        assert (theirs.schema_title, theirs.schema_version) == (getattr(artifact, name).TYPE_NAME, "0.0.1")


def test_metrics_are_numbers_that_the_backend_takes() -> None:
    metrics = {"auc": 0.7, "calibration": None, "calibration_error": math.nan}
    judged = TaskVerdict(metrics=metrics, gates=[gate(True, "good"), gate(False, "bad")])
    assert metrics_of(record(tasks={"like": judged}, blessed=False)) == {
        "like auc": 0.7,
        "gates": 2.0,
        "gates passed": 1.0,
        "serving checks": 0.0,
        "serving checks passed": 0.0,
        "warnings": 0.0,
        "blessed": 0.0,
        "pushed": 0.0,
    }
