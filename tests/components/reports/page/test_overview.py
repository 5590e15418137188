"""The page of many runs."""

import re
from typing import Any

from components.reports.page.overview import OverviewRun, StepRow, render_overview, steps_of


def _run(date: str, **changes: Any) -> OverviewRun:
    known: dict[str, Any] = {
        "name": f"run-{date}", "date": date, "status": "succeeded", "blessed": True, "pushed": "1", "rolled_back": None,
        "why": "", "auc": {"like": 0.7}, "bounds": {"like": 0.6}, "seconds": {"trainer": 60.0, "pusher": 1.0},
    }  # fmt: skip
    return OverviewRun(**{**known, **changes})


def test_each_run_has_one_outcome() -> None:
    assert _run("d").outcome == "pushed"
    assert _run("d", rolled_back="likes fell").outcome == "rolled back"
    assert _run("d", pushed=None).outcome == "blessed"
    assert _run("d", pushed=None, blessed=False).outcome == "refused"
    assert _run("d", pushed=None, blessed=None, status="failed").outcome == "failed"


def test_runs_are_counted_and_listed_newest_first_with_their_reasons() -> None:
    runs = [
        _run("2026-03-01", page="runs/a/report.html"),
        _run("2026-03-02", status="failed", pushed=None, blessed=None, auc={}, why="the disk is full <&>"),
        _run("2026-03-03", rolled_back="likes fell"),
    ]
    page = render_overview({"demo": runs}, since="2026-03-01")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for words in ("3 runs", "1 pushed", "1 failed", "1 rolled back", "the disk is full &lt;&amp;&gt;", "likes fell"):
        assert words in text
    assert page.index(">2026-03-03<") < page.index(">2026-03-01<")
    assert 'href="runs/a/report.html"' in page


def test_steps_have_the_mean_and_the_sum_of_time_and_of_cost_in_one_currency() -> None:
    runs = [
        _run("2026-03-01", cost={"trainer": 9.0}, currency="USD"),
        _run("2026-03-02", cost={"trainer": 0.5, "pusher": 0.25}, currency="EUR"),
        _run("2026-03-03", seconds={"trainer": 30.0}, cost={"trainer": 1.5}, currency="EUR"),
    ]
    assert list(steps_of(runs, "EUR")) == [
        StepRow("trainer", 3, 50.0, 150.0, 1.0, 2.0),
        StepRow("pusher", 2, 1.0, 2.0, 0.25, 0.25),
    ]
    assert "mean EUR" in render_overview({"demo": runs}, since="2026-03-01")
    assert "EUR" not in render_overview({"demo": [_run("2026-03-01")]}, since="2026-03-01")
