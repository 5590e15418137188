"""The record of a run and what is printed of it."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from components.evaluator.verdict import GateVerdict, TaskVerdict, Verdict
from pipelines.local.request import RunRequest
from pipelines.local.run import error_text
from pipelines.local.steps import Artifact, Step
from pipelines.outcome import Ending, summarise
from pipelines.report import print_report
from pipelines.summary import Summary, exit_code, write_summary
from schemas.errors import UserError
from schemas.loading import load_spec
from schemas.spec import digest

SPEC = load_spec(Path(__file__).parents[2] / "pipelines" / "specs" / "census_income.yaml")
GATES = [
    GateVerdict(kind="value", metric="auc", bound=0.9, value=0.91, passed=True, reason="auc 0.9100 is at least 0.9000"),
    GateVerdict(kind="change", metric="auc", bound=0.005, value=0.02, passed=False, reason="auc [0.9100] is worse"),
]
VERDICT = Verdict(
    blessed=False,
    baseline="/models/1",
    notes=["no blessed model yet"],
    tasks={"income": TaskVerdict(metrics={"auc": 0.91, "log_loss": 0.2}, slices={}, gates=GATES)},
)


def _judged_run(folder: Path, *, pushed: bool) -> Summary:
    (folder / "verdict.json").write_text(VERDICT.model_dump_json())
    model = Artifact("unused", {"pushed": int(pushed), "version": "20240307", "path": "/serving/20240307"})
    steps = [
        Step("evaluator", "cached", 1.5, 2 * 2**20, {"evaluation": Artifact(str(folder))}),
        Step("pusher", "ran", 0.5, 3 * 2**20, {"pushed_model": model}),
    ]
    request = RunRequest(SPEC, None, folder / "data", folder)
    return summarise(request, folder, steps, Ending("succeeded", None, 2.0), "c0ffee")


def test_a_summary_holds_the_verdict_and_the_pushed_version(tmp_path: Path) -> None:
    summary = _judged_run(tmp_path, pushed=True)
    assert summary.blessed is False
    assert summary.baseline == "/models/1"
    assert summary.tasks["income"].auc == 0.91
    assert summary.tasks["income"].rmse is None
    assert summary.tasks["income"].gates == GATES
    assert summary.pushed
    assert (summary.pushed.version, summary.pushed.path) == ("20240307", "/serving/20240307")
    assert (summary.steps["evaluator"].cached, summary.steps["pusher"].cached) == (True, False)
    assert (summary.spec_digest, summary.git_commit, summary.date) == (digest(SPEC), "c0ffee", None)


def test_a_model_that_is_not_pushed_has_no_version(tmp_path: Path) -> None:
    assert _judged_run(tmp_path, pushed=False).pushed is None


def test_a_run_that_failed_before_its_first_step_has_a_summary(tmp_path: Path) -> None:
    request = RunRequest(SPEC, None, tmp_path, tmp_path)
    summary = summarise(request, tmp_path, [], Ending("failed", "ImportError: nothing works", 0.1), None)
    assert (summary.status, summary.error, summary.failed_step) == ("failed", "ImportError: nothing works", None)
    assert (summary.rows, summary.tasks, summary.blessed) == ({}, {}, None)


def test_the_step_that_did_not_end_is_named(tmp_path: Path) -> None:
    request = RunRequest(SPEC, None, tmp_path, tmp_path)
    steps = [Step("example_gen", "ran", 1.0, 0), Step("statistics_gen", "stopped", 1.0, 0)]
    assert summarise(request, tmp_path, steps, Ending("stopped", "", 2.0), None).failed_step == "statistics_gen"


def test_a_summary_is_written_whole(tmp_path: Path) -> None:
    summary = _judged_run(tmp_path, pushed=True)
    path = write_summary(summary)
    assert Summary.model_validate_json(path.read_text()) == summary
    assert json.loads(path.read_text())["tasks"]["income"]["gates"][1]["passed"] is False
    assert sorted(found.name for found in tmp_path.iterdir()) == ["summary.json", "verdict.json"]


@pytest.mark.parametrize(
    ("status", "blessed", "code"),
    [("succeeded", True, 0), ("succeeded", False, 3), ("failed", None, 1), ("failed", True, 1), ("stopped", None, 143)],
)
def test_the_exit_code_says_how_it_ended(tmp_path: Path, status: str, blessed: bool | None, code: int) -> None:
    summary = _judged_run(tmp_path, pushed=True).model_copy(update={"status": status, "blessed": blessed})
    assert exit_code(summary, 143) == code


def test_the_report_gives_every_gates_reason_and_the_models_place(tmp_path: Path) -> None:
    shown = io.StringIO()
    print_report(_judged_run(tmp_path, pushed=True), Console(file=shown, width=120))
    lines = shown.getvalue().splitlines()
    assert lines[1].split() == [
        "income",
        "auc",
        "0.9100",
        "value",
        "0.9",
        "pass",
        "auc",
        "0.9100",
        "is",
        "at",
        "least",
        "0.9000",
    ]
    assert lines[2].split() == ["change", "0.005", "fail", "auc", "[0.9100]", "is", "worse"]
    assert lines[3:] == [
        "note: no blessed model yet",
        "not blessed",
        "pushed: version 20240307 in /serving/20240307",
        "succeeded after 2 s, 1 of 2 steps cached, peak memory 3 MiB",
    ]


def test_a_users_mistake_is_found_behind_other_errors() -> None:
    def fail() -> None:
        try:
            raise UserError("data: no files (got none)")
        except UserError as mistake:
            raise RuntimeError("a worker failed") from mistake

    with pytest.raises(RuntimeError) as caught:
        fail()
    assert error_text(caught.value) == "data: no files (got none)"
    assert error_text(ValueError("bad\n")) == "ValueError: bad"
