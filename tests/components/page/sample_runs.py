"""A run with what its steps would have left, small."""

from typing import Any

import numpy as np

from sangam.components.page.facts import Distribution, Facts, FeatureFacts
from sangam.components.record.run import RunRecord, Step
from sangam.components.reports.curves import Curve
from sangam.components.reports.evaluation import CalibrationBucket, Difference, GateVerdict, TaskVerdict
from sangam.components.reports.importance import ColumnImportance, TaskImportance
from sangam.components.reports.serving import ServingVerdict
from sangam.components.reports.skew import Cause, ColumnSkew, Example, FeatureSkew, ScoreSkew, TaskSkew
from sangam.schemas.spec.serving import Load
from tests.components.record.sample_records import record

TRAINING: dict[str, Any] = {
    "ranks": 2,
    "parameters_dense": 100,
    "layers": "dense layers: 2 of 3 native (float32 by AVX-512); by TensorFlow: heads/like (one output)",
    "examples": 2000,
    "examples_per_s": 500.0,
    "seconds": 4.0,
    "input_wait": 0.1,
    "rank_wait": 0.1,
    "by_rank": [{"seconds": 3.0, "input_wait": 0.1, "rank_wait": 0.1, "peak_memory_bytes": 800 * 2**20}],
    "skipped_steps": 0,
    "resumed_from_step": [],
    "best_epoch": None,
    "learning_rates": {"steps": [1.0, 20.0], "dense": [0.001, 0.001], "rows": [0.05, 0.05]},
    "checkpoint": {"blocked_s": 0.5},
    "epochs": [
        {
            "steps": 20, "examples": 2000, "seconds": 3.0, "evict_s": 0.0, "input_wait": 0.1, "rank_wait": 0.1,
            "mean_loss": {"like": 0.4},
        }
    ],
    "tables": {
        "users": {
            "rows": 7, "bytes": 700, "admitted": 7, "rejected": 0, "evicted": 0, "expired": 0,
            "load_max_over_mean": 1.0, "norms": [0] * 12 + [7] + [0] * 12,
        }
    },
}  # fmt: skip


def gate(
    *,
    passed: bool = True,
    reason: str = "auc 0.7000 is at least the bound 0.6000",
    metric: str = "auc",
    bound: float = 0.6,
) -> GateVerdict:
    return GateVerdict(kind="value", metric=metric, bound=bound, value=0.7, passed=passed, reason=reason)


def facts(task: str = "like", **changes: Any) -> Facts:
    curve = Curve(
        false_positive_rate=[0.0, 0.2, 1.0],
        true_positive_rate=[0.0, 0.6, 1.0],
        precision=[0.5, 0.4, 0.1],
        score_edges=[0.01, 0.1, 0.5],
        negatives=[80.0, 10.0],
        positives=[2.0, 8.0],
    )
    number = Distribution(["1", "2"], [0.5, 0.5], [0.25, 0.75], is_number=True)
    known: dict[str, Any] = {
        "curves": {task: curve},
        "training": TRAINING,
        "losses": np.linspace(0.7, 0.3, 20, dtype=np.float32)[:, None],
        "features": [FeatureFacts("price", 0.0, 0.5, number)],
        "importances": [
            TaskImportance(
                task=task,
                metric="auc",
                examples=5000,
                columns=[ColumnImportance(columns=["price"], features=["price"], value=0.1, lower=0.08, upper=0.12)],
            )
        ],
    }
    return Facts(**{**known, **changes})


def run(task: str = "like", gates: tuple[GateVerdict, ...] = (gate(),), **changes: Any) -> RunRecord:
    judged = TaskVerdict(
        metrics={"auc": 0.7, "mean_label": 0.1, "num_examples": 1000.0, "calibration": 1.01},
        intervals={"auc": (0.65, 0.75)},
        baseline={"auc": 0.71},
        differences={"auc": Difference(value=-0.01, lower=-0.02, upper=-0.005)},
        slices={
            "tab=home": {"auc": 0.8, "num_examples": 600.0},
            "tab=search": {"auc": 0.6, "num_examples": 300.0},
            "tab=other": {"auc": None, "num_examples": 1.0},
        },
        calibration_buckets=[CalibrationBucket(mean_prediction=0.1, mean_label=0.12, num_examples=10.0)],
        gates=list(gates),
    )
    known: dict[str, Any] = {
        "name": "demo",
        "run": "20260305T000000-abc",
        "date": "2026-03-05",
        "blessed": all(each.passed for each in gates),
        "pushed": {"version": "20260305001", "path": "/serving/20260305001"},
        "steps": {"trainer": Step("trainer", "ran", 10.0, 2**30, cpu_seconds=15.0)},
        "tasks": {task: judged},
    }
    return record(**{**known, **changes})


def skewed() -> ServingVerdict:
    """Returns the serving check of a server that sees another unit."""
    example = Example(keys={"request_id": "r0"}, served=4.375, offline=4.5)
    cause = Cause(kind="unit", detail="1000 times", share=1.0)
    columns = [
        ColumnSkew(column="price", compared=60, different=54, cause=cause, examples=[example]),
        ColumnSkew(column="tags", compared=60, different=0),
    ]
    score = example.model_copy(update={"served": 0.5, "offline": 0.25})
    task = TaskSkew(task="like", compared=60, different=1, largest=0.25, examples=[score])
    return ServingVerdict(
        blessed=True,
        model_bytes=1,
        load=Load(),
        checks=[],
        feature_skew=FeatureSkew(rows=60, unmatched=0, columns=columns),
        score_skew=ScoreSkew(tasks=[task], left_out={}),
    )


def past() -> list[RunRecord]:
    """Returns the runs of two days before: one blessed, one refused."""

    def day(date: str, auc: float, *, blessed: bool) -> RunRecord:
        tasks = {"like": {"metrics": {"auc": auc}, "gates": []}}
        return run(date=date, blessed=blessed, tasks=tasks)

    return [day("2026-03-03", 0.71, blessed=True), day("2026-03-04", 0.5, blessed=False)]
