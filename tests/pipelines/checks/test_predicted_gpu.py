"""The rate of a GPU rank in `sangam plan`, from results of infra/gpu."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines.checks.predicted_gpu import predicted_rates, told
from sangam.schemas.derived.sizes import dense_parameters
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from tests.errors import mentions
from tests.paths import SPECS

SPEC = load_spec(SPECS / "short_video.yaml")
_IDS = 33
"""Of an example of the spec: four single ids, up to 8 hashtags, up to 20 posts, and the language."""


def _with(**training: Any) -> Spec:
    return SPEC.model_copy(update={"training": SPEC.training.model_copy(update=training)})


def _write(folder: Path, *, accelerator: str = "NVIDIA L4", **workload: int) -> Path:
    sizes = {"ids_per_example": _IDS, "dense_weights": dense_parameters(SPEC)} | workload
    steps = [
        {"dense": "accelerator", "rows": rows, "precision": precision, "batch": batch, "median_s": seconds * batch}
        for batch in (512, 65_536)
        for rows, precision, seconds in (
            ("host", "tf32", 5e-6),
            ("host", "bfloat16", 4e-6),
            ("host", "float32", 8e-6),
            ("device", "tf32", 3e-6),
        )
    ]
    parts = [
        {"precision": precision, "batch": batch, "xla": False, "median_ms": seconds * batch * 1e3}
        for batch in (512, 65_536)
        for precision, seconds in (("tf32", 1e-6), ("bfloat16", 0.5e-6), ("float32", 4e-6))
    ]
    document = {"accelerator": accelerator, "workload": sizes, "results": steps}
    (folder / "training.json").write_text(json.dumps(document))
    (folder / "dense.json").write_text(json.dumps({"results": parts}))
    return folder


def test_a_ranker_like_the_workload_has_its_measured_rate(tmp_path: Path) -> None:
    rates = predicted_rates(_with(batch_size_per_rank=512, dense_precision="auto"), _write(tmp_path))
    assert {place: rate.samples_per_s for place, rate in rates.items()} == pytest.approx(
        {"host": 250_000, "device": 1e6 / 3}
    )
    assert (rates["host"].precision, rates["device"].precision) == ("bfloat16", "tf32")
    assert mentions(told(rates)[0], "rows on the host: 250,000 samples/s in bfloat16")


def test_each_part_grows_with_what_it_depends_on(tmp_path: Path) -> None:
    spec = _with(batch_size_per_rank=512, dense_precision="float32")
    same = predicted_rates(spec, _write(tmp_path))["host"]
    twice = predicted_rates(spec, _write(tmp_path, dense_weights=dense_parameters(SPEC) // 2))["host"]
    assert (same.dense_s, same.rest_s) == pytest.approx((512 * 4e-6, 512 * 4e-6))
    assert twice.dense_s == pytest.approx(2 * same.dense_s, rel=1e-3)
    assert twice.rest_s == same.rest_s
    fewer = predicted_rates(spec, _write(tmp_path, ids_per_example=2 * _IDS))["host"]
    assert (fewer.dense_s, fewer.rest_s) == pytest.approx((same.dense_s, same.rest_s / 2))


def test_what_was_not_measured_is_not_predicted(tmp_path: Path) -> None:
    rates = predicted_rates(_with(batch_size_per_rank=512, dense_precision="float32"), _write(tmp_path))
    assert list(rates) == ["host"]
    assert predicted_rates(SPEC, None) == {}


def test_results_without_a_gpu_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--gpu-results: results of a machine without a GPU"):
        predicted_rates(SPEC, _write(tmp_path, accelerator="none: a logical CPU, /CPU:1"))


def test_a_folder_without_results_and_damaged_ones_are_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*training.json \(got: No such file"):
        predicted_rates(SPEC, tmp_path)
    _write(tmp_path)
    (tmp_path / "dense.json").write_text('{"results": [{"batch": 0}]}')
    with pytest.raises(UserError, match=r"dense.json: results.0"):
        predicted_rates(SPEC, tmp_path)
