"""What a run costs."""

from pathlib import Path

import pytest

from sangam.schemas.derived.cost import (
    job_per_hour,
    per_billion_samples,
    per_million_candidates,
    run_cost,
    serving_price,
)
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec, digest
from tests.schemas.sample_specs import changed, write

PRICES = {"currency": "EUR", "rank_per_hour": 3.6, "step_per_hour": 0.36}


def _spec(folder: Path, **cluster: int) -> Spec:
    return load_spec(write(folder / "spec.yaml", changed({"cost": PRICES, "cluster": cluster})))


def test_the_training_job_pays_for_ranks_and_for_its_helpers(tmp_path: Path) -> None:
    spec = _spec(tmp_path, ranks=4, data_workers=3)
    assert spec.cost
    assert job_per_hour(spec, spec.cost) == pytest.approx(4 * 3.6 + 3 * 0.36)


def test_a_run_costs_its_steps_at_their_prices(tmp_path: Path) -> None:
    spec = _spec(tmp_path, ranks=2, data_workers=0)
    assert spec.cost
    cost = run_cost(spec, spec.cost, {"transform": 100.0, "trainer": 50.0}, examples=2_000_000, samples_per_s=100_000)
    # 0.0001 a second for a step, 0.002 for both ranks.
    assert cost.by_step == pytest.approx({"transform": 0.01, "trainer": 0.1})
    assert cost.total == pytest.approx(0.11)
    assert cost.per_million_examples == pytest.approx(0.055)
    # 100,000 examples a second: a billion in 10,000 seconds.
    assert cost.training_per_billion_samples == pytest.approx(20.0)
    assert per_billion_samples(spec, spec.cost, 100_000) == pytest.approx(20.0)


def test_serving_costs_the_time_of_cores_and_is_compared_with_the_live_version(tmp_path: Path) -> None:
    cost = load_spec(write(tmp_path / "spec.yaml", changed({"cost": {**PRICES, "serving_core_hour": 0.036}}))).cost
    assert cost
    # 0.00001 a second of a core, in which it answers 20,000: a million in 50 s.
    assert per_million_candidates(cost, 20_000) == pytest.approx(0.0005)
    assert per_million_candidates(cost, None) is None
    assert per_million_candidates(cost.model_copy(update={"serving_core_hour": None}), 20_000) is None
    assert serving_price("EUR", 0.0005, None) == "serving 0.0005 EUR for a million candidates"
    assert serving_price("EUR", 0.0005, 0.0004).endswith(", +0.0001 (+25.0%) over the live version")


def test_a_run_that_trained_nothing_has_no_price_of_training(tmp_path: Path) -> None:
    spec = _spec(tmp_path, ranks=1, data_workers=0)
    assert spec.cost
    cost = run_cost(spec, spec.cost, {"example_gen": 10.0}, examples=0, samples_per_s=None)
    assert (cost.per_million_examples, cost.training_per_billion_samples) == (None, None)


def test_prices_are_no_part_of_the_digest(tmp_path: Path) -> None:
    without = load_spec(write(tmp_path / "without.yaml", changed({"cluster": {"ranks": 2, "data_workers": 0}})))
    assert digest(_spec(tmp_path, ranks=2, data_workers=0)) == digest(without)
