"""The page of many runs."""

import datetime
import re
from pathlib import Path
from typing import Any

from sangam.components.page.overview import OverviewRun, StepRow, overview, steps_of
from sangam.components.record.outcome import outcome_of
from sangam.components.record.run import RunRecord, Step
from sangam.components.record.store import stored, write_record
from sangam.schemas.contracts.root import Root, RunFolder
from tests.components.page.sample_runs import gate
from tests.components.record.sample_records import record

FIRST = datetime.date(2026, 3, 1)
_TASKS = {"like": {"metrics": {"auc": 0.7}, "gates": [gate()]}}


def _cost(currency: str, **by_step: float) -> dict[str, Any]:
    known = {"total": 1.0, "per_million_examples": None, "training_per_billion_samples": None}
    return {"currency": currency, "by_step": by_step, **known}


def _record(date: str, **changes: Any) -> RunRecord:
    steps = {name: Step(name, "ran", seconds) for name, seconds in (("trainer", 60.0), ("pusher", 1.0))}
    run = f"{date.replace('-', '')}T000000-a"
    return record(**{"run": run, "path": f"/runs/{run}", "date": date, "tasks": _TASKS, "steps": steps, **changes})


def _leave(root: Root, date: str, **changes: Any) -> None:
    ended = _record(date, **changes)
    folder = root.run(ended.run).path
    folder.mkdir(parents=True)
    write_record(ended.model_copy(update={"path": str(folder)}))


def _page(root: Root) -> str:
    def page_of(folder: RunFolder) -> str | None:
        return f"runs/{folder.path.name}/report.html"

    return overview(root, page_of, first=FIRST)[1]


def test_runs_are_counted_and_listed_newest_first_with_their_reasons(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    _leave(root, "2026-03-01", pushed={"version": "1", "path": str(tmp_path)})
    _leave(root, "2026-03-02", status="failed", blessed=None, tasks={}, error="the disk is full <&>")
    _leave(root, "2026-03-03")
    (root.runs / "20260304T000000-a").mkdir()
    (root.runs / "20260304T000000-a" / "summary.json").write_text("{")
    page = _page(root)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for words in ("3 runs", "1 pushed", "1 failed", "1 blessed", "the disk is full &lt;&amp;&gt;", "1 unreadable"):
        assert words in text
    assert page.index(">2026-03-03<") < page.index(">2026-03-01<")
    assert 'href="runs/20260301T000000-a/report.html"' in page


def test_steps_have_the_mean_and_the_sum_of_time_and_of_cost_in_one_currency(tmp_path: Path) -> None:
    records = [
        _record("2026-03-01", cost=_cost("USD", trainer=9.0)),
        _record("2026-03-02", cost=_cost("EUR", trainer=0.5, pusher=0.25)),
        _record("2026-03-03", cost=_cost("EUR", trainer=1.5), steps={"trainer": Step("trainer", "ran", 30.0)}),
    ]
    runs = [OverviewRun(stored(each), outcome_of(stored(each))) for each in records]
    assert list(steps_of(runs, "EUR")) == [
        StepRow("trainer", 3, 50.0, 150.0, 1.0, 2.0),
        StepRow("pusher", 2, 1.0, 2.0, 0.25, 0.25),
    ]
    root = Root(str(tmp_path))
    _leave(root, "2026-03-01")
    assert "EUR" not in _page(root)
    _leave(root, "2026-03-02", cost=_cost("EUR", trainer=0.5))
    assert "mean EUR" in _page(root)
