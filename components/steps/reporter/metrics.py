"""The results of a run as Kubeflow's pages show them, from the metadata of artifacts.

`system.Metrics`: numbers by name; a launcher without ML Metadata refuses texts. `system.ClassificationMetrics`: a ROC
curve as the list `confidenceMetrics` (kubeflow/pipelines, frontend/src/components/viewers/MetricsVisualizations.tsx).
Both have the form of the SDK's classes in `kfp.dsl`. There is no confusion matrix: a ranker has no threshold.
"""

import math
from itertools import accumulate
from typing import Any

from sangam.components.record.run import RunRecord
from sangam.components.reports.curves import Curve
from sangam.components.reports.headline import headline_of
from sangam.schemas.spec import Spec
from sangam.schemas.spec.tasks import BinaryTask

CURVE = "roc_"
"""Beginning of the names of outputs with a curve; the task's name follows."""
_CALIBRATION = {"calibration": "predicted over observed", "calibration_error": "calibration error"}


def curve_outputs(spec: Spec) -> dict[str, str]:
    """Returns the task of each output with a curve."""
    return {f"{CURVE}{name}": name for name, task in spec.tasks.items() if isinstance(task, BinaryTask)}


def metrics_of(record: RunRecord) -> dict[str, float]:
    """Returns the numbers of a run by name: of each task its metric, calibration and gates; then of the whole run."""
    found: dict[str, float | None] = {}
    for name, task in record.tasks.items():
        main = headline_of(task)
        found[f"{name} {main.metric}"] = main.value
        found |= {f"{name} {words}": task.metrics.get(metric) for metric, words in _CALIBRATION.items()}
    gates = [gate for task in record.tasks.values() for gate in task.gates]
    checks = record.serving.checks if record.serving else []
    found |= {
        "gates": float(len(gates)),
        "gates passed": float(sum(gate.passed for gate in gates)),
        "serving checks": float(len(checks)),
        "serving checks passed": float(sum(check.passed for check in checks)),
        "warnings": float(len(record.warnings)),
        "blessed": float(record.blessed is True),
        "pushed": float(record.pushed is not None),
    }
    # The backend's JSON has neither null nor NaN.
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def roc(curve: Curve) -> list[dict[str, Any]]:
    """Returns the rates at the edges of the scores' bins, from the highest threshold to the lowest."""
    false, true = (list(accumulate([0.0, *reversed(counts)])) for counts in (curve.negatives, curve.positives))
    if not false[-1] or not true[-1]:
        return []
    return [
        {"confidenceThreshold": edge, "falsePositiveRate": false_sum / false[-1], "recall": true_sum / true[-1]}
        for edge, false_sum, true_sum in zip(reversed(curve.score_edges), false, true, strict=True)
    ]
