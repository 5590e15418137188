"""Ten days of Online Retail by the repository's own spec and one `sangam backfill`: results, and the pages of them."""

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.browser.pages import look_at
from tests.e2e.user_run import sangam
from tests.paths import SPECS

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.real_data, pytest.mark.timeout(1500)]

FIRST, LAST = "2011-11-20", "2011-11-30"
TRADED = [str(datetime.date(2011, 11, day)) for day in range(20, 31) if day != 26]
"""Days of November with sales."""


@pytest.fixture(scope="module")
def root(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = repository.parent / "shared" / "data" / "online_retail" / "lines"
    if not lines.exists():
        pytest.skip(f"needs the real data beside the checkout, in {lines}")
    folder = tmp_path_factory.mktemp("ten_days")
    yaml = YAML()
    document: dict[str, Any] = yaml.load((SPECS / "online_retail.yaml").read_text())
    # One process for each training: others have tests of their own.
    document["cluster"] = {"ranks": 1, "data_workers": 0}
    document["cost"] = {"currency": "EUR", "rank_per_hour": 0.4, "step_per_hour": 0.1}
    spec = folder / "ten_days.yaml"
    with spec.open("w") as file:
        yaml.dump(document, file)
    days = ("--from", FIRST, "--to", LAST)
    done = sangam("backfill", str(spec), *days, "--data", str(lines), "--root", str(folder / "root"), timeout_s=1400)
    # A gate may refuse a day: the shop's days differ.
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return folder / "root"


def _summaries(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(root.glob("runs/*/summary.json"))]


def test_the_first_day_trains_on_sixty_days_and_is_pushed(root: Path) -> None:
    first, *_ = _summaries(root)
    assert {split: rows["written"] for split, rows in first["rows"].items()} == {"train": 105_083, "eval": 3_095}
    assert len(first["days"]["train"]) == 51
    assert len(first["missing_days"]) == 9
    assert first["tasks"]["reorder"]["auc"] > 0.8
    assert first["tasks"]["bulk"]["auc"] > 0.8
    assert first["tasks"]["high_value"]["auc"] > 0.8
    assert Path(first["pushed"]["path"], "saved_model.pb").exists()


def test_each_later_day_goes_on_from_the_last_blessed_one(root: Path) -> None:
    summaries = _summaries(root)
    assert [summary["date"] for summary in summaries] == TRADED
    blessed = None
    for summary in summaries:
        assert summary["base_last_day"] == blessed
        if summary["blessed"]:
            blessed = summary["days"]["train"][-1]


def test_the_last_days_page_shows_the_days_before(root: Path) -> None:
    page = max((root / "runs").glob("*")) / "report.html"
    look_at(page, "online_retail · 2011-11-30", "AUC of the last 30 days", "EUR", "None.")
    # The days below each task's chart.
    assert set(re.findall(r">(11-\d\d)<", page.read_text())) == {day[5:] for day in TRADED}


def test_all_days_are_on_one_page_with_their_cost(root: Path) -> None:
    done = sangam("report", str(root), "--last", "30d")
    assert done.returncode == 0, done.stderr
    look_at(root / "report.html", "10 runs", "mean EUR", *TRADED)
