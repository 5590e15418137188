"""What `sangam plan` says of GPUs."""

from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines.checks.planned_gpu import compared_price, planned_gpu
from sangam.schemas.derived.device_memory import CONTEXT_BYTES
from sangam.schemas.derived.gpu_rate import Rate
from sangam.schemas.derived.plan import plan
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from tests.errors import mentions
from tests.paths import SPECS
from tests.pipelines.checks.test_plan import ROWS
from tests.schemas.derived.test_cost import PRICES
from tests.schemas.sample_specs import changed, write

SPEC = SPECS / "short_video.yaml"


def _with_places(**places: str) -> Spec:
    spec = load_spec(SPEC)
    tables = {name: table.model_copy(update={"place": places.get(name, "host")}) for name, table in spec.tables.items()}
    return spec.model_copy(update={"tables": tables})


def _planned(spec: Spec, memory: str, ranks: int = 8) -> Any:
    found = planned_gpu(spec, plan(spec, rows=ROWS, ranks=ranks), memory)
    assert found is not None
    return found


def test_rows_on_the_host_take_nothing_of_the_device() -> None:
    found = _planned(load_spec(SPEC), "24GB").plans["all rows on the host"]
    assert found.rows == found.growth == 0
    # Weights, two moments, an average and a gradient.
    assert found.dense == 45_784 * 4 * 5
    assert found.total == CONTEXT_BYTES + found.dense + found.batch


def test_the_rows_of_a_table_are_its_share_times_their_width() -> None:
    found = _planned(_with_places(users="device"), "24GB").plans["rows as declared"]
    assert found.tables == ("users",)
    # 80 million on 8 ranks and six deviations more, of 16 floats and as many slots.
    assert found.rows == pytest.approx(128 * 10_017_748, rel=1e-3)
    assert found.growth == 2 * found.rows


def test_what_does_not_fit_is_told_with_what_would() -> None:
    small, large = _planned(load_spec(SPEC), "2GB"), _planned(load_spec(SPEC), "80GB")
    assert mentions(
        " ".join(small.lines()), "rows on the host ... fits ... on the device ... does not fit ... contexts"
    )
    assert set(small.fitting) == {"contexts", "authors", "hashtags"}
    assert mentions(" ".join(large.lines()), "on the device ... ; fits")
    assert large.document()["plans"]["all rows on the device"]["fits"]


def _priced(folder: Path, prices: dict[str, Any]) -> Spec:
    document = changed({"cost": prices, "cluster": {"ranks": 1, "data_workers": 0}})
    return load_spec(write(folder / "spec.yaml", document))


def test_a_size_without_effect_is_told() -> None:
    spec = load_spec(SPEC)
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"dense_place": "host"})})
    with pytest.raises(UserError, match=r"--gpu-memory: has no effect: training.dense_place is host \(got '24GB'\)"):
        _planned(spec, "24GB")
    assert planned_gpu(spec, plan(spec, rows=ROWS, ranks=1), None) is None


def test_the_price_of_gpus_is_compared(tmp_path: Path) -> None:
    prices = {**PRICES, "gpu_rank_per_hour": 2 * PRICES["rank_per_hour"]}
    spec = _priced(tmp_path, prices)
    assert compared_price(spec, 1000.0, None, {}, ranks=4, gpu_ranks=1) is None
    told = compared_price(spec, 1000.0, 2000.0, {}, ranks=4, gpu_ranks=1)
    assert told is not None
    assert mentions(told, "cost on GPUs ... -75% against")
    alone = compared_price(spec, None, 8000.0, {}, ranks=1, gpu_ranks=1)
    assert alone is not None
    assert "--samples-per-s" in alone


def test_a_predicted_rate_gives_the_price_too(tmp_path: Path) -> None:
    prices = {**PRICES, "gpu_rank_per_hour": PRICES["rank_per_hour"]}
    spec = _priced(tmp_path, prices)
    rates = {"host": Rate("tf32", 0.01, 0.01, 100.0), "device": Rate("tf32", 0.01, 0.005, 200.0)}
    told = compared_price(spec, 100.0, None, rates, ranks=1, gpu_ranks=2)
    assert told is not None
    # Two GPUs at 200 samples a second each, for the price of two machines.
    assert mentions(told, "-50% against")


def test_a_rate_without_a_price_is_told(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path / "spec.yaml", changed({"cost": PRICES})))
    with pytest.raises(UserError, match=r"--gpu-samples-per-s: .*cost.gpu_rank_per_hour"):
        compared_price(spec, None, 10.0, {}, ranks=1, gpu_ranks=1)
