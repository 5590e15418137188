"""Records of made-up runs."""

from typing import Any

from sangam.components.record.run import RunRecord, status_of
from sangam.components.reports.evaluation import GateVerdict, TaskVerdict
from sangam.components.reports.serving import Check, ServingVerdict
from sangam.schemas.spec.serving import Load


def gate(passed: bool, reason: str) -> GateVerdict:
    return GateVerdict(kind="value", metric="auc", bound=0.6, value=0.5, passed=passed, reason=reason)


def record(**changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "run": "20240308T020000-1a2b3c4d",
        "path": "p",
        "name": "short_video",
        "error": None,
        "failed_step": None,
        "date": "2024-03-07",
        "days": {},
        "missing_days": [],
        "rows": {},
        "tasks": {},
        "notes": [],
        "blessed": True,
        "baseline": None,
        "pushed": None,
        "steps": {},
        "total_seconds": 1.0,
        "spec_digest": "d",
        "git_commit": None,
    }
    fields |= changes
    return RunRecord.model_validate({"status": status_of(fields["blessed"], fields["pushed"]), **fields})


def refused(checks: list[Check], *gates: GateVerdict) -> RunRecord:
    serving = ServingVerdict(
        blessed=all(check.passed for check in checks),
        model_bytes=1,
        load_s=1.0,
        p50_ms=1.0,
        p99_ms=1.0,
        load=Load(),
        checks=checks,
    )
    task = TaskVerdict(metrics={}, gates=list(gates))
    return record(blessed=False, tasks={"like": task}, serving=serving)
