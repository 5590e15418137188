"""Statistics of features, put together from days: each day is read once, and the result is that of all rows at once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.schemas.contracts.statistics import Bins, Boundaries, Scale
from sangam.schemas.spec import Inputs
from tests.beam_args import BEAM_ARGS

pytestmark = pytest.mark.slow

FEATURES = {
    "price": {"kind": "numeric", "normalize": "zscore"},
    "price_logged": {"kind": "numeric", "column": "price", "log": True, "clip": [0, 50], "normalize": "minmax"},
    "fifth": {"kind": "buckets", "column": "price", "num_buckets": 5},
    "binned": {"kind": "numeric", "column": "price", "encoding": {"kind": "piecewise_linear", "bins": 4}},
}
INPUTS = Inputs.model_validate_json(json.dumps({"features": FEATURES, "tasks": {"like": {"kind": "binary"}}}))


def prices(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(1.0, 1.0, size=5000).astype(np.float32)


def write_day(folder: Path, seed: int) -> Any:
    from sangam.components.examples.listing import DayExamples
    from sangam.components.examples.writer import BlockWriter

    folder.mkdir(parents=True)
    with BlockWriter(str(folder), f"2024-03-{seed + 1:02d}", 0, bytes_per_file=6_000) as writer:
        columns = {"price": pa.array(prices(seed)[:, None].tolist(), pa.list_(pa.float32()))}
        columns["like"] = pa.array([[1]] * 5000, pa.list_(pa.int64()))
        writer.write(pa.RecordBatch.from_pydict(columns))
    return DayExamples(day=f"2024-03-{seed + 1:02d}", folder=str(folder), names=tuple(writer.names), rows=writer.rows)


def test_a_window_moved_by_a_day_reads_that_day_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import apache_beam as beam

    from sangam.components.examples.by_day import ByDay
    from sangam.components.steps.transform import analysis
    from sangam.trainer_module.transforms.preprocessing import numbers_fn

    read: list[str] = []
    original = analysis.large_batches
    monkeypatch.setattr(analysis, "large_batches", lambda files: (read.extend(files), original(files))[1])
    analyze = analysis.Analyze(numbers_fn, INPUTS, tuple(FEATURES))
    by_day = ByDay("transform", ("c",), analyze)
    days = [write_day(tmp_path / str(seed), seed) for seed in range(4)]
    assert len(days[0].files) > 1

    def statistics_of(window: list[Any]) -> dict[str, Any]:
        by_day.complete(window, lambda: beam.Pipeline(argv=list(BEAM_ARGS)))
        return analyze.found(analyze.merged(by_day.results(window)))

    statistics_of(days[:3])
    read.clear()
    moved = statistics_of(days[1:])
    assert set(read) == set(days[3].files)
    for day in days:
        for file in Path(day.folder).glob("transform-*"):
            file.unlink()
    assert statistics_of(days[1:]) == moved

    numbers = np.concatenate([prices(seed) for seed in (1, 2, 3)]).astype(np.float64)
    logged = np.log1p(np.clip(numbers, 0, 50))
    price, price_logged, fifth, binned = (moved[name] for name in FEATURES)
    assert isinstance(price, Scale)
    assert isinstance(price_logged, Scale)
    assert isinstance(fifth, Boundaries)
    assert isinstance(binned, Bins)
    assert (price.offset, price.width) == pytest.approx((numbers.mean(), numbers.std()), rel=1e-6)
    assert (price_logged.offset, price_logged.width) == pytest.approx((logged.min(), np.ptp(logged)), rel=1e-6)
    shares = np.searchsorted(np.sort(numbers), fifth.lowest) / numbers.size
    assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8], abs=0.01)
    lowest, *between, highest = binned.ends
    assert (lowest, highest) == (numbers.min(), numbers.max())
    assert np.searchsorted(np.sort(numbers), between) / numbers.size == pytest.approx([0.25, 0.5, 0.75], abs=0.01)
