"""Ten days of Online Retail by one `sangam backfill`, and what its pages show of them."""

import datetime
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.browser.pages import look_at
from tests.e2e.user_run import sangam
from tests.paths import SPECS

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.real_data, pytest.mark.timeout(1200)]

FIRST, LAST = "2011-11-20", "2011-11-30"
TRADED = [day for day in range(20, 31) if day != 26]
"""Days of November with sales."""
PRICES = {"currency": "EUR", "rank_per_hour": 0.4, "step_per_hour": 0.1}


@pytest.fixture(scope="module")
def root(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = repository.parent / "shared" / "data" / "online_retail" / "lines"
    if not lines.exists():
        pytest.skip(f"needs the real data beside the checkout, in {lines}")
    folder = tmp_path_factory.mktemp("ten_days")
    yaml = YAML()
    document: dict[str, Any] = yaml.load((SPECS / "online_retail.yaml").read_text())
    document["data"]["train_days"] = 3
    document["training"]["epochs"] = 1
    document["cluster"] = {"ranks": 1, "data_workers": 0}
    document["cost"] = PRICES
    # So little data is below the bounds of the whole: most of the ten days pass these, and some need not.
    document["gates"] = [
        {"task": task, "metric": "auc", "at_least": 0.5, "max_drop": 0.2} for task in ("reorder", "bulk", "high_value")
    ]
    spec = folder / "ten_days.yaml"
    with spec.open("w") as file:
        yaml.dump(document, file)
    days = ("--from", FIRST, "--to", LAST)
    done = sangam("backfill", str(spec), *days, "--data", str(lines), "--root", str(folder / "root"), timeout_s=1000)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return folder / "root"


def test_the_last_days_page_shows_the_days_before(root: Path) -> None:
    page = max((root / "runs").glob("*")) / "report.html"
    look_at(page, "online_retail · 2011-11-30", "AUC of the last 30 days", "EUR", "None.")
    # A dot for each of the days in each task's chart.
    assert len(re.findall(r"2011-11-\d\d", page.read_text())) >= len(TRADED)


def test_all_days_are_on_one_page_with_their_cost(root: Path) -> None:
    done = sangam("report", str(root), "--last", "30d")
    assert done.returncode == 0, done.stderr
    dates = [str(datetime.date(2011, 11, day)) for day in TRADED]
    look_at(root / "report.html", "10 runs", "mean EUR", *dates)
