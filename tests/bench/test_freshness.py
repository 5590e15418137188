"""What freshness gives, as it is told, and the minutes that it is measured on."""

import datetime
from pathlib import Path

import numpy as np
import pytest

from sangam.pipelines.synthetic import generate
from sangam.schemas.contracts import segments
from sangam.schemas.loading import load_spec
from tests.paths import REPOSITORY

DAYS = [datetime.date(2026, 3, 1), datetime.date(2026, 3, 2)]


def _result(seed: int, base: float, minute: float) -> dict[str, object]:
    aucs = {"none": {"like": base, "share": 0.5}, "each minute": {"like": minute, "share": 0.5}}
    return {"case": "feed", "seed": seed, "commit": "abc", "rows": 1_000, "minutes": 20, "aucs": aucs}


def test_gains_are_those_of_each_seed() -> None:
    from bench.freshness.report import report

    found = [_result(1, 0.6, 0.62), _result(2, 0.7, 0.74)]
    assert report(found).splitlines() == [
        "**feed**: 1,000 rows in 20 minutes; seeds: 2; commit abc",
        "",
        "| deltas | like | share | mean |",
        "| --- | --- | --- | --- |",
        "| none | 0.6500 ± 0.0707 | 0.5000 ± 0.0000 | 0.5750 ± 0.0354 |",
        "| each minute | 0.6800 (+0.0300 ± 0.0141) | 0.5000 (+0.0000 ± 0.0000) | 0.5900 (+0.0150 ± 0.0071) |",
    ]


@pytest.mark.long
@pytest.mark.slow
def test_each_minute_is_a_segment_of_its_rows_in_the_order_of_time(tmp_path: Path) -> None:
    from bench.freshness.cases import CASES
    from bench.freshness.minutes import write_minutes

    sizes = {"rows_per_day": 300, "num_users": 50, "num_posts": 60, "seed": 3, "drift": 1.0}
    generate(tmp_path / "logs", first_day=DAYS[0], num_days=2, **sizes)
    case = CASES[0]
    text = (REPOSITORY / case.spec).read_text()
    (tmp_path / "spec.yaml").write_text(f"{text}\nevent_time: event_time\nonline: {{}}\n")
    minutes = write_minutes(load_spec(tmp_path / "spec.yaml"), tmp_path / "logs", DAYS, tmp_path / "segments")
    sealed = [segments.read(tmp_path / "segments", number) for number in segments.numbers(tmp_path / "segments")]
    assert sum(segment.rows for segment in sealed) == 600 == len(minutes.labels["like"])
    assert len(sealed) == len(minutes.first_events)
    starts = np.array(minutes.first_events) // 60
    assert (np.diff(starts) > 0).all()
