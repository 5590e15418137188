"""The cost of a run, from the seconds of its steps and the reports of its work."""

from collections.abc import Mapping
from dataclasses import asdict

from sangam.components.record.run import CostReport, Reports, Step
from sangam.schemas.derived.cost import run_cost
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import TRAIN


def cost_of(spec: Spec, steps: Mapping[str, Step], reports: Reports) -> CostReport | None:
    """Returns the cost of a run; None where the spec has no prices."""
    if spec.cost is None:
        return None
    rows = reports.ingestion.splits if reports.ingestion else {}
    cost = run_cost(
        spec,
        spec.cost,
        {name: step.seconds or 0.0 for name, step in steps.items()},
        examples=rows[TRAIN].written if TRAIN in rows else 0,
        samples_per_s=reports.training.examples_per_s if reports.training else None,
        candidates_per_core_s=reports.serving.candidates_per_core_s if reports.serving else None,
        live_candidates_per_core_s=reports.serving.live_candidates_per_core_s if reports.serving else None,
    )
    return CostReport(currency=spec.cost.currency, **asdict(cost))
