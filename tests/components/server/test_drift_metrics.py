"""The page of drift: of a model with very many columns it lists those that have drifted, and counts the others."""

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from sangam.components.drift.comparison import Comparison
from sangam.components.drift.watching import Counted
from sangam.components.server import drift_metrics
from sangam.schemas.contracts.drift_reference import Bins, ColumnReference, DriftReference
from sangam.schemas.contracts.export import ServedColumn

COLUMNS = 2_000


class Watched:
    """What a watch has counted."""

    def __init__(self, comparison: Comparison, counted: Counted):
        self.served, self.counted = lambda: comparison, lambda: counted

    def now(self) -> dict[str, int]:
        return {"running": 11, "last": 10}


@pytest.mark.slow
def test_of_two_thousand_columns_those_that_have_drifted_are_listed() -> None:
    bins, bounds = Bins(cuts=(0.0,), shares=(0.5, 0.5)), {"jensen_shannon": 0.1}
    of = ColumnReference(type="float", missing=0.0, numbers=bins, bounds=bounds)  # type: ignore[arg-type]
    names = [f"c{number:04d}" for number in range(COLUMNS)]
    reference = DriftReference(rows=2, columns=dict.fromkeys(names, of), scores={})
    served = {name: ServedColumn(type="float", is_list=False, input=name) for name in names}
    comparison = Comparison(1, served, reference)
    even = np.array([-1.0, 1.0], np.float32)
    inputs = dict.fromkeys(names, even) | {"c1234": np.array([1.0, 1.0], np.float32)}
    counted = Counted(1, {11: comparison.counts(inputs, 2, {})})
    registry = CollectorRegistry()
    watched = Watched(comparison, counted)
    drift_metrics.register(registry, drift_metrics.DriftTelling(watched, None))  # type: ignore[arg-type]

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"hour": "running", **labels})

    family = next(each for each in registry.collect() if each.name == "sangam_drift")
    assert len({sample.labels["column"] for sample in family.samples}) == 50
    assert value("sangam_drift", column="c1234", measure="jensen_shannon") == pytest.approx(0.3113, abs=1e-4)
    assert value("sangam_drift_columns") == COLUMNS
    assert value("sangam_drift_columns_over") == 1
    assert value("sangam_drift_columns_unlisted") == COLUMNS - 50
    assert value("sangam_drift_unlisted", measure="jensen_shannon") == 0.0
    assert registry.get_sample_value("sangam_drift_columns", {"hour": "last"}) == 0
