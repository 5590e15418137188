"""What `sangam plan` says of the price of a training."""

from pathlib import Path

import pytest

from sangam.pipelines.checks.planned_cost import planned_cost
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from tests.schemas.derived.test_cost import PRICES
from tests.schemas.sample_specs import changed, write


def test_the_price_is_of_the_planned_ranks_at_the_given_rate(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path / "spec.yaml", changed({"cost": PRICES, "cluster": {"data_workers": 0}})))
    planned = planned_cost(spec, 10, 100_000.0)
    assert planned is not None
    assert planned.text() == "cost: the training job 36 EUR an hour, 100 EUR for a billion samples"
    unknown = planned_cost(spec, 10, None)
    assert unknown is not None
    assert "--samples-per-s" in unknown.text()


def test_the_price_of_serving_is_of_a_core_at_the_given_rate(tmp_path: Path) -> None:
    prices = {**PRICES, "serving_core_hour": 0.036}
    spec = load_spec(write(tmp_path / "spec.yaml", changed({"cost": prices, "cluster": {"data_workers": 0}})))
    planned = planned_cost(spec, 10, 100_000.0, 20_000.0)
    assert planned is not None
    assert ", serving 0.0005 EUR for a million candidates, 100 EUR" in planned.text()
    without = load_spec(write(tmp_path / "without.yaml", changed({"cost": PRICES})))
    with pytest.raises(UserError, match=r"--candidates-per-core-s: .* \(got 5\); declare cost\.serving_core_hour"):
        planned_cost(without, 2, None, 5.0)


def test_a_rate_without_prices_is_told(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path / "spec.yaml", changed({})))
    assert planned_cost(spec, 2, None) is None
    with pytest.raises(UserError, match=r"--samples-per-s: .* \(got 5\); declare `cost`"):
        planned_cost(spec, 2, 5.0)
