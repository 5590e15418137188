"""Measurements made up for the judge: no TFMA, exact small numbers."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sangam.components.reports.evaluation import GateVerdict, Verdict
from sangam.components.steps.evaluator.judge.judge import Baseline, judge
from sangam.components.steps.evaluator.judge.leaks import Leak
from sangam.components.steps.evaluator.metrics.measured import Measured, SliceResult
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Evaluation, Gate

INPUTS = Inputs.model_validate_json(
    json.dumps(
        {
            "features": {
                "tab": {"kind": "id", "type": "string", "table": "tabs"},
                "language": {"kind": "id", "type": "string", "table": "languages"},
                "user": {"kind": "id", "type": "int", "table": "users"},
            },
            "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "regression"}},
        }
    )
)
NO_BASELINE = Baseline(uri=None, tasks=frozenset(), problem="none yet")
COMPARED = Baseline(uri="models/1", tasks=frozenset({"like", "watch"}), problem="")


def exactly(*replicates: float) -> Measured:
    """Returns a metric whose value is the first number, whose interval and replicates are the others."""
    value, *others = replicates
    return Measured(value, min(others), max(others), tuple(others)) if others else Measured(value)


def metrics(num_examples: int = 1000, **values: float | Measured | None) -> dict[str, Measured]:
    """Returns the metrics of a task, sound unless told otherwise."""
    sound: dict[str, float | Measured | None] = {"num_examples": num_examples, "non_finite": 0.0, "mean_label": 0.3}
    return {name: value if isinstance(value, Measured) else Measured(value) for name, value in (sound | values).items()}


def slice_of(
    *features: str,
    like: dict[str, Measured] | None = None,
    blessed: dict[str, Measured] | None = None,
    watch: dict[str, Measured] | None = None,
    blessed_watch: dict[str, Measured] | None = None,
) -> SliceResult:
    """Returns a slice by these features: the candidate's metrics and the blessed model's."""
    candidate = {"like": like or metrics(auc=0.75), "watch": watch or metrics(rmse=1.0)}
    baseline = {"like": blessed or {}, "watch": blessed_watch or {}}
    return SliceResult(candidate=candidate, baseline=baseline, features=frozenset(features))


def judged(
    gate: dict[str, Any] | list[dict[str, Any]],
    slices: dict[str, SliceResult],
    *,
    baseline: Baseline = NO_BASELINE,
    evaluation: dict[str, Any] | None = None,
    known_id_features: Collection[str] | None = None,
    leaks: Mapping[str, Sequence[Leak]] | None = None,
) -> Verdict:
    """Returns the verdict on gates as the YAML declares them; slice "" is made up unless given."""
    gates = [Gate.model_validate_json(json.dumps(one)) for one in (gate if isinstance(gate, list) else [gate])]
    declared = Evaluation.model_validate_json(json.dumps(evaluation or {}))
    measured = {"": slice_of(), **slices}
    return judge(
        inputs=INPUTS,
        evaluation=declared,
        gates=gates,
        baseline=baseline,
        measured=measured,
        known_id_features=known_id_features,
        leaks=leaks,
    )


def declared(verdict: Verdict, task: str = "like") -> list[GateVerdict]:
    """Returns the verdicts of the gates that the spec declares, without those that are asked of every model."""
    return [gate for gate in verdict.tasks[task].gates if gate.kind in ("value", "change", "gain")]
