"""What the summary and the report tell of a training: its tables, its start, what went wrong on the way."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.record.run import Artifact, RunRecord, Step
from sangam.pipelines.console import terminal
from sangam.pipelines.local.request import RunRequest
from sangam.pipelines.local.result.outcome import RunEnd, summarize
from sangam.pipelines.local.result.report import print_report
from sangam.schemas.loading import load_spec
from tests.errors import mentions, tells
from tests.paths import SPECS

SPEC = load_spec(SPECS / "census_income.yaml")


def _table(rows: int, **changes: Any) -> dict[str, Any]:
    counts = {"admitted": rows + 7, "rejected": 5, "expired": 4, "evicted": 3}
    return {"rows": rows, "bytes": rows * 100, **counts, "load_max_over_mean": 1.25, "unique_share": 0.5} | changes


TRAINING: dict[str, Any] = {
    "spec_digest": "unread",
    "examples": 1000,
    "examples_per_s": 250.5,
    "input_wait": 0.0312,
    "rank_wait": 0.0215,
    "skipped_steps": 0,
    "resumed_from_step": [],
    "warm_start": None,
    "tables": {"users": _table(12_345), "tags": _table(0, load_max_over_mean=None, unique_share=None)},
}


def _summary(folder: Path, **changes: Any) -> RunRecord:
    folder.mkdir(exist_ok=True)
    (folder / "training.json").write_text(json.dumps(TRAINING | changes))
    steps = {"trainer": Step("trainer", "ran", 1.0, 0, {"training": Artifact(str(folder))})}
    return summarize(RunRequest(SPEC, None, str(folder), folder), folder, steps, RunEnd(None, None, 2.0), None)


def _report(summary: RunRecord) -> list[str]:
    shown = io.StringIO()
    print_report(summary, terminal(shown))
    return [" ".join(line.split()) for line in shown.getvalue().splitlines()]


def test_the_summary_holds_every_table_and_survives_its_own_json(tmp_path: Path) -> None:
    summary = _summary(tmp_path, skipped_steps=2, resumed_from_step=[40])
    assert summary.training
    assert summary.training.tables["users"].model_dump() == _table(12_345)
    assert (summary.training.examples, summary.training.skipped_steps) == (1000, 2)
    assert summary.training.resumed_from_step == [40]
    assert (summary.training.input_wait, summary.training.rank_wait) == (0.0312, 0.0215)
    waited = "3.1 % of the epochs' time was waiting for input"
    assert f"trained: 1,000 examples, 250 a second; {waited}, 2.1 % for other ranks" in " ".join(_report(summary))
    assert RunRecord.model_validate_json(summary.text()).training == summary.training


def test_the_report_says_which_epoch_the_model_is_from(tmp_path: Path) -> None:
    stopped = {
        "metric": "income.auc",
        "best_epoch": 1,
        "best": 0.9425,
        "values": [0.94, 0.9425, 0.941],
        "reason": "x",
    }
    [line] = [line for line in _report(_summary(tmp_path, early_stopping=stopped)) if line.startswith("model: of")]
    assert tells(line, "model", "epoch 2 ... income.auc 0.9425 ... x")


def test_the_report_says_whether_the_validation_days_were_learned_from(tmp_path: Path) -> None:
    days = {"days": {"train": ["2024-03-01"], "validation": ["2024-03-02", "2024-03-03"]}}
    held_out = _report(_summary(tmp_path).model_copy(update=days))
    assert any(tells(line, "not learned from", "2024-03-02, 2024-03-03") for line in held_out)
    refit = {"days": ["2024-03-02", "2024-03-03"], "passes": 4, "examples": 8, "steps": 4}
    seen = _report(_summary(tmp_path / "refit", refit=refit).model_copy(update=days))
    assert any(tells(line, "refit", "2024-03-02, 2024-03-03 ... 4 passes") for line in seen)
    assert not [line for line in seen if line.startswith("not learned from")]
    undated = _report(_summary(tmp_path / "undated", refit=refit | {"days": []}))
    assert any(tells(line, "refit", "the validation split ... 4 passes") for line in undated)


def test_a_run_that_did_not_come_to_train_has_none(tmp_path: Path) -> None:
    steps = {"trainer": Step("trainer", "failed", 1.0, 0)}
    ending = RunEnd("failed", "no", 2.0)
    assert summarize(RunRequest(SPEC, None, str(tmp_path), tmp_path), tmp_path, steps, ending, None).training is None


def test_the_report_has_a_line_for_each_table_the_largest_first(tmp_path: Path) -> None:
    lines = _report(_summary(tmp_path))
    assert lines[:4] == [
        "table rows size admitted rejected expired evicted load unique",
        "users 12,345 1.23 MB 12,352 5 4 3 1.25 0.50",
        "tags 0 0 B 7 5 4 3",
        "",
    ]


def test_the_report_stays_short_where_there_are_many_tables(tmp_path: Path) -> None:
    lines = _report(_summary(tmp_path, tables={f"t{number:02}": _table(number + 1) for number in range(31)}))
    assert [line.split()[0] for line in lines[1:13]] == [f"t{number}" for number in range(30, 18, -1)]
    assert mentions(lines[13], "19 ... tables")


def test_a_training_without_tables_has_no_lines_for_them(tmp_path: Path) -> None:
    first, second, *_ = _report(_summary(tmp_path, tables={}))
    assert first.startswith("trained: ")
    assert second == "pushed: nothing"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"warm_start": {"base_days": ["2024-03-01", "2024-03-02"], "loaded": ["a"], "new": [], "dropped": []}},
            "warm start: ... 2024-03-02",
        ),
        (
            {
                "warm_start": {
                    "base_days": ["2024-03-02"],
                    "loaded": [],
                    "new": ["tables.tags", "weights.heads/share/w"],
                    "dropped": ["tables.words"],
                }
            },
            "warm start: ... 2024-03-02; new: tables.tags, weights.heads/share/w; dropped: tables.words",
        ),
        (
            {"warm_start": {"base_days": [], "loaded": ["a"], "new": [], "dropped": []}},
            "warm start: ",
        ),
        ({"resumed_from_step": [40, 80]}, "resumed: ... step 40, 80"),
        (
            {"checkpoint": {"given_up": 0, "passed_over": ["damaged-step-000000000080"]}},
            "damaged: ... damaged-step-000000000080",
        ),
        (
            {"checkpoint": {"given_up": 2, "passed_over": []}},
            "not written: 2 checkpoints",
        ),
        ({"skipped_steps": 3}, "skipped: 3 steps"),
    ],
)
def test_what_was_out_of_the_ordinary_has_a_line(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    assert any(mentions(told, line) for told in _report(_summary(tmp_path, **changes)))
    assert not [shown for shown in _report(_summary(tmp_path)) if shown.startswith(line.split(":")[0])]
