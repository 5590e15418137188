"""What the pages of searches, backfills and comparisons are made of."""

import csv
import datetime
import io
import time
from pathlib import Path

from rich.console import Console

from sangam.components.record.journal import Journal
from sangam.components.record.kubeflow import task_file
from sangam.components.record.lock import locked
from sangam.components.record.store import find_run, read_runs
from sangam.pipelines.history.runs import document as listed
from sangam.pipelines.history.runs import print_runs
from sangam.pipelines.ui.backfills import read_backfills
from sangam.pipelines.ui.compare import compare, data_rows, metric_rows, read_facts
from sangam.pipelines.ui.pages import Pages
from sangam.pipelines.ui.runs import rows_of
from sangam.pipelines.ui.searches import columns_of, read_searches
from sangam.schemas.contracts.root import Root
from tests.pipelines.ui.sample_root import (
    FAILED,
    NEW,
    OLD,
    RANKER,
    day,
    run_id,
    write_backfill,
    write_runs,
    write_search,
)


def test_a_change_is_against_the_run_before_that_came_to_a_result(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    rows = rows_of(read_runs(root.path), datetime.datetime(2024, 3, 10, tzinfo=datetime.UTC))
    assert [row.state for row in rows] == ["pushed", "failed", "refused", "pushed", "pushed"]
    assert [None if row.change is None else round(row.change, 4) for row in rows] == [
        0.0097,
        None,
        -0.0043,
        0.0032,
        None,
    ]
    assert [row.result for row in rows[:3]] == ["version 20240308001", "in trainer", ""]


def test_a_run_on_kubeflow_is_shown_while_it_goes_and_says_when_its_pods_are_lost(tmp_path: Path) -> None:
    root, now = write_runs(tmp_path), time.time()
    for name, ago_s in (("lost", 1e4), ("goes-on", 10.0)):
        run = root.run(name)
        journal = Journal(lambda ago_s=ago_s: now - ago_s, task_file(run, "trainer"))  # type: ignore[misc]
        journal.opened(run.path, date="2024-03-09", ranker=RANKER)
        journal.step_started("trainer")
    found = read_runs(root.path)
    rows = rows_of(found, datetime.datetime.now(datetime.UTC))
    assert [(row.id, row.state, row.date, row.ranker, row.result) for row in rows[:2]] == [
        ("goes-on", "running", "2024-03-09", RANKER, ""),
        ("lost", "killed", "2024-03-09", RANKER, "lost in trainer"),
    ]
    pages = Pages(root)
    under_way, lost = pages.run("goes-on").text, pages.run("lost").text
    pages.close()
    assert all(word in under_way for word in ("example_gen", "cached", "running", "waiting"))
    assert "its pod has not been heard of since" in lost
    shown = Console(file=io.StringIO(), width=200)
    print_runs(found, datetime.datetime.now(datetime.UTC), shown)
    assert "lost in trainer" in shown.file.getvalue()  # type: ignore[attr-defined]
    assert [step["state"] for step in listed(found[0], datetime.datetime.now(datetime.UTC))["steps"]][4:7] == [
        "cached",
        "running",
        "waiting",
    ]


def test_a_metric_is_better_in_its_own_direction(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    old, new = (find_run(root.run(run_id(number)).path) for number in (OLD, NEW))
    tones = {(row.task, row.metric): row.tone for row in metric_rows(old, new)}
    assert tones == {
        ("like", "auc"): "good",
        ("like", "log_loss"): "good",
        ("like", "calibration"): "good",
        ("like", "num_examples"): "",
        ("share", "auc"): "good",
    }
    assert {row.tone for row in metric_rows(new, old)} == {"bad", ""}
    shown = {(row.task, row.metric): row.shown for row in metric_rows(old, new)}
    assert shown["like", "calibration"] == ("1.0300", "1.0000", "−0.0300")
    assert shown["like", "num_examples"] == ("9,800", "9,800", "0")


def test_the_data_of_two_runs_differ_by_days_and_rows(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    old, new = (find_run(root.run(run_id(number)).path) for number in (OLD, NEW))
    rows = {row.what: (row.old, row.new, row.difference) for row in data_rows(old, new)}
    assert rows["train days"] == ("2024-03-02 to 2024-03-04 (3)", "2024-03-05 to 2024-03-07 (3)", "")
    assert rows["train days in one run only"][0] == "2024-03-02, 2024-03-03, 2024-03-04"
    assert rows["train rows left out: label missing: like"] == ("3", "12", "+9")
    assert rows["days without logs"] == ("2024-03-02", "none", "")


def test_both_runs_are_in_each_curve(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    old, new = (find_run(root.run(run_id(number)).path) for number in (OLD, NEW))
    found = compare(old, new, read_facts(old, new))
    titles = [chart.split('aria-label="')[1].split('"')[0] for chart in found.curves]
    assert titles == [
        "ROC curves of like in both runs",
        "Training loss of like by step in both runs",
        "Training loss of share by step in both runs",
        "Validation like auc by epoch in both runs",
        "Validation share auc by epoch in both runs",
    ]
    for chart in found.curves:
        assert "var(--first)" in chart
        assert "var(--second)" in chart
    assert [(change.what, change.old, change.new) for change in found.spec] == [("training.epochs", 2, 3)]


def test_a_run_without_outputs_has_no_curve(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    failed = find_run(root.run(run_id(FAILED)).path)
    assert compare(failed, failed, read_facts(failed, failed)).curves == []


def test_a_search_has_its_trials_so_far_and_the_one_under_way(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    assert read_searches(root) == []
    with locked(write_search(root)):
        [found] = read_searches(root)
    assert (found.ranker, found.objective, found.is_running) == ("small", "like auc", True)
    assert [trial.state for trial in found.trials] == ["done", "done", "pruned", "failed", "done", "running"]
    assert found.best
    assert (found.best.number, found.best.objective) == (1, 0.724)
    assert found.best_so_far == [(0, 0.71), (1, 0.724), (4, 0.724)]
    assert found.trials[5].note.startswith("40 %  4,040 examples/s")
    assert found.trials[5].values["tables.users.dim"] == "32"
    assert [(column.short, column.is_number) for column in columns_of(found.trials)] == [
        ("learning_rate", True),
        ("dim", True),
    ]
    [ended] = read_searches(root)
    assert ended.trials[5].state == "unfinished"


def test_the_columns_of_a_search_are_known_by_their_names(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    table = write_search(root) / "trials.csv"
    before = read_searches(root)
    with table.open() as file:
        rows = [row[::-1] for row in csv.reader(file)]
    with table.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert read_searches(root)[0].trials == before[0].trials
    table.write_bytes(b"trial,state\n1,\xff")
    assert [trial.number for trial in read_searches(root)[0].trials] == [5]


def test_a_search_that_makes_its_examples_has_no_trial_yet(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    (root.tune("small") / "0a0b0c0d").mkdir(parents=True)
    [found] = read_searches(root)
    assert (found.trials, found.best, found.objective) == ((), None, "")


def test_a_backfill_has_the_dates_that_are_done_of_those_that_were_asked_for(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    assert read_backfills(root) == []
    folder = write_backfill(root)
    [found] = read_backfills(root)
    assert (found.num_done, len(found.asked), found.current, found.metrics) == (4, 5, None, {"like": "auc"})
    assert len(found.charts) == 1
    (folder / f"{day(4)}.log").write_text("a line")
    with locked(root.path):
        assert read_backfills(root)[0].current == day(4)
    assert read_backfills(root)[0].current is None
