"""What drafts do for calibrated predictions: held-out days, a validation split, the band of the gate."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.pipelines.drafting import Draft, draft
from sangam.pipelines.drafting.calibrating import band
from sangam.pipelines.drafting.rates import Rate, rates_of
from sangam.pipelines.drafting.values import Values
from sangam.schemas.derived.search import search_of
from tests.pipelines.drafting.sample_logs import spec_of, valid

RNG = np.random.default_rng(5)
PLATT = {"kind": "platt"}


def days(folder: Path, number: int, rows: int, labels: dict[str, Any]) -> Path:
    """Writes logs of many days, a file each."""
    for day in range(number):
        of_day = folder / str(np.datetime64("2024-01-01") + day)
        of_day.mkdir(parents=True)
        columns = {name: made(rows) for name, made in labels.items()}
        pq.write_table(
            pa.table({"price": RNG.random(rows), "item_id": np.arange(rows) % 7, **columns}), of_day / "a.parquet"
        )
    return folder


def half(rows: int) -> Any:
    return np.arange(rows) % 2


def money(rows: int) -> Any:
    return RNG.random(rows) * 100


def test_as_many_days_as_have_enough_labels_calibrate_and_are_trained_on_afterwards(tmp_path: Path) -> None:
    logs = days(tmp_path, 33, 2000, {"clicked": half, "spent": money})
    document = valid(draft(logs, "small", ["clicked", "spent"]))
    # 1,000 rows a day of either label: two days of 30, and three to evaluate on.
    assert {name: document["data"][name] for name in ("train_days", "validation_days", "eval_days")} == {
        "train_days": 30,
        "validation_days": 2,
        "eval_days": 3,
    }
    assert document["training"]["early_stopping"] == {"per_epoch": 4, "refit": True}
    # 1,000 steps at least, and another pass that is tried.
    assert document["training"]["epochs"] == 8
    assert document["tasks"]["clicked"]["calibration"] == PLATT
    assert "calibration" not in document["tasks"]["spent"]
    assert {"task": "clicked", "metric": "calibration", "at_least": 0.9, "at_most": 1.1} in document["gates"]
    assert [gate["metric"] for gate in document["gates"]] == ["auc", "calibration", "rmse"]


def tuned(made: Draft, line: str) -> dict[str, Any]:
    """Returns a draft with a commented line and a search: valid, its best spec trains on the rows as the comment
    says."""
    assert made.text.count(f"# {line}") == 1, made.text
    document = valid(dataclasses.replace(made, text=made.text.replace(f"# {line}", line) + "tune: auto\n"))
    spec = spec_of(document)
    assert spec.tune is not None
    refits = search_of(spec, spec.tune).changes["training.early_stopping"]["refit"]
    assert refits == ("trained on these rows too" in made.text)
    assert refits != ("they are not trained on" in made.text)
    return document


@pytest.mark.parametrize(("number", "rows"), [(21, 2000), (33, 400)])
def test_few_days_or_few_labels_are_all_trained_on_until_a_search_needs_one(
    tmp_path: Path, number: int, rows: int
) -> None:
    made = draft(days(tmp_path, number, rows, {"clicked": half}), "small", ["clicked"])
    document = valid(made)
    assert "validation_days" not in document["data"]
    assert tuned(made, "validation_days: 1")["data"]["validation_days"] == 1
    assert "early_stopping" not in document["training"]
    assert "calibration" not in document["tasks"]["clicked"]


def test_a_regression_is_not_calibrated(tmp_path: Path) -> None:
    document = valid(draft(days(tmp_path, 33, 2000, {"spent": money}), "small", ["spent"]))
    assert "validation_days" not in document["data"]
    assert [gate["metric"] for gate in document["gates"]] == ["rmse"]


def test_a_table_by_time_holds_out_days_too(tmp_path: Path) -> None:
    rows = 60_000
    seconds = np.sort(RNG.integers(30 * 86_400, size=rows)) + 1_704_067_200
    table = pa.table({"event_time": seconds, "item_id": np.arange(rows) % 7, "clicked": half(rows)})
    pq.write_table(table, tmp_path / "a.parquet")
    document = valid(draft(tmp_path / "a.parquet", "small", ["clicked"]))
    assert document["data"]["validation"] == {"days": 2}
    assert document["training"]["early_stopping"] == {"per_epoch": 4, "refit": True}
    assert spec_of(document).logs.validation_days == 2


@pytest.mark.parametrize(("rows", "is_calibrated"), [(4000, True), (2000, False)])
def test_a_validation_split_that_is_there_calibrates(tmp_path: Path, rows: int, is_calibrated: bool) -> None:
    for split in ("train", "validation", "test"):
        table = pa.table({"price": RNG.random(rows), "clicked": half(rows)})
        pq.write_table(table, tmp_path / f"{split}.parquet")
    document = valid(draft(tmp_path, "small", ["clicked"]))
    assert document["tasks"]["clicked"].get("calibration") == (PLATT if is_calibrated else None)
    assert "early_stopping" not in document["training"]


@pytest.mark.parametrize(("rows", "fraction"), [(40_000, 0.08), (10_000, None)])
def test_a_share_of_the_train_rows_calibrates_where_there_is_no_validation_split(
    tmp_path: Path, rows: int, fraction: float | None
) -> None:
    table = pa.table({"price": RNG.random(rows), "clicked": half(rows)})
    for split in ("train", "test"):
        (tmp_path / "splits" / split).mkdir(parents=True)
        pq.write_table(table, tmp_path / "splits" / split / "a.parquet")
    (tmp_path / "table").mkdir()
    pq.write_table(table, tmp_path / "table" / "a.parquet")
    held_out = {"fraction": fraction} if fraction else None
    drafts = [draft(tmp_path / lie, "small", ["clicked"]) for lie in ("splits", "table")]
    in_splits, in_table = map(valid, drafts)
    assert in_splits["data"]["splits"].get("validation") == held_out
    if not fraction:
        in_splits_tuned, in_table_tuned = (tuned(made, "validation: {fraction: 0.1}")["data"] for made in drafts)
        assert in_splits_tuned["splits"]["validation"] == in_table_tuned["validation"] == {"fraction": 0.1}
    # A tenth of its rows are evaluated on.
    assert in_table["data"].get("validation") == (held_out and {"fraction": 0.09})
    for document in (in_splits, in_table):
        assert document["tasks"]["clicked"].get("calibration") == (PLATT if fraction else None)
        stopping = document["training"].get("early_stopping")
        assert stopping == ({"per_epoch": 4, "refit": True} if fraction else None)


@pytest.mark.parametrize(
    ("rate", "rows", "days", "ends"),
    [
        (Rate(0.5, 0), 400, 1, (0.9, 1.1)),
        (Rate(0.5, 0), 399, 1, (0.85, 1.15)),
        (Rate(0.01, 0), 1e6, 1, (0.9, 1.1)),
        (Rate(0.01, 0), 10_000, 1, (0.8, 1.2)),
        (Rate(0.01, 0), 1_000, 1, None),
        (Rate(0.5, 0.1), 1e9, 1, (0.75, 1.25)),
        (Rate(0.5, 0.1), 1e9, 4, (0.85, 1.15)),
        (Rate(0.0, 0), 1e6, 1, None),
        (Rate(1.0, 0), 1e6, 1, None),
        (Rate(0.5, 0), 0, 1, None),
    ],
)
def test_the_band_of_the_gate_is_wider_for_few_positives_and_rates_that_swing(
    rate: Rate, rows: float, days: int, ends: tuple[float, float] | None
) -> None:
    assert band(rate, rows, days) == ends


def test_a_rate_swings_by_what_the_number_of_rows_does_not_explain() -> None:
    labels = np.concatenate([np.arange(10_000) % 10 < tenths for tenths in (2, 4, 2, 4, 3)]).astype(np.int64)
    day = np.repeat(np.arange(5), 10_000)
    columns = {"clicked": Values("int", pa.array(labels))}
    chance = 0.3 * 0.7 / 10_000
    [rate] = rates_of(["clicked"], columns, day).values()
    assert rate == pytest.approx((0.3, np.sqrt(0.13 / 4 / 2 - chance) / 0.3))
    assert rates_of(["clicked"], columns, day // 2)["clicked"].swing == 0.0
    assert rates_of(["clicked"], columns, None)["clicked"].swing == 0.0
    alike = rates_of(["clicked"], {"clicked": Values("int", pa.array(half(50_000)))}, day)
    assert alike == {"clicked": Rate(0.5, 0.0)}
