"""The record of a run and what is printed of it."""

import datetime
import io
import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.record.run import Artifact, RunRecord, Step
from sangam.components.record.store import write_record
from sangam.components.registry.versions import withdraw
from sangam.components.reports.evaluation import Difference, GateVerdict, TaskVerdict, Verdict
from sangam.components.reports.serving import Check, ServingVerdict
from sangam.pipelines.console import terminal
from sangam.pipelines.local.request import RunRequest
from sangam.pipelines.local.result.outcome import RunEnd, exit_code, summarize
from sangam.pipelines.local.result.report import print_report
from sangam.pipelines.local.run import error_text
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import digest
from sangam.schemas.spec.release import DirectoryPush
from sangam.schemas.spec.serving import Load
from tests.errors import mentions, tells
from tests.paths import SPECS

SPEC = load_spec(SPECS / "census_income.yaml")
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


CHECKS = [
    Check(name="size", passed=True, reason="the model's 12.3 MB is at most serving.max_model_size 1.00 GB"),
    Check(name="latency", passed=True, reason="p99 6.5 ms"),
]
SERVED = ServingVerdict(
    blessed=True,
    model_bytes=12_345_678,
    load_s=3.21,
    load=Load(candidates=200, clients=2),
    p50_ms=4.123,
    p99_ms=6.5,
    requests=1_000,
    checks=CHECKS,
    notes=["serving.max_p99_ms is not declared"],
)
SLOW = Check(name="latency", passed=False, reason="p99 61 ms [of 90 requests] is above serving.max_p99_ms 50")
REFUSED = SERVED.model_copy(update={"blessed": False, "checks": [CHECKS[0], SLOW]})


def named(*steps: Step) -> dict[str, Step]:
    return {step.name: step for step in steps}


def _judged_run(
    folder: Path, *, pushed: bool, verdict: Verdict = VERDICT, served: ServingVerdict = SERVED
) -> RunRecord:
    (folder / "verdict.json").write_text(verdict.model_dump_json())
    (folder / "infra_verdict.json").write_text(served.model_dump_json())
    model = Artifact("unused", {"pushed": int(pushed), "version": "20240307", "path": "/serving/20240307"})
    steps = named(
        Step("evaluator", "cached", 1.5, 2 * 2**20, {"evaluation": Artifact(str(folder))}),
        Step("infra_validator", "ran", 1.5, 2**20, {"blessing": Artifact(str(folder))}),
        Step("pusher", "ran", 0.5, 3 * 2**20, {"pushed_model": model}),
    )
    request = RunRequest(SPEC, None, str(folder / "data"), folder)
    return summarize(request, folder, steps, RunEnd(None, None, 2.0), "c0ffee")


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


@pytest.mark.parametrize("quality", [True, False])
@pytest.mark.parametrize("served", [True, False])
def test_a_model_is_blessed_when_the_quality_gates_and_the_serving_check_say_so(
    quality: bool, served: bool, tmp_path: Path
) -> None:
    verdict = VERDICT.model_copy(update={"blessed": quality})
    summary = _judged_run(tmp_path, pushed=False, verdict=verdict, served=SERVED if served else REFUSED)
    assert summary.blessed is (quality and served)
    assert exit_code(summary, 0) == (0 if quality and served else 3)


def test_what_only_one_gate_has_judged_is_not_blessed_yet(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(VERDICT.model_copy(update={"blessed": True}).model_dump_json())
    steps = named(Step("evaluator", "ran", 1.0, 0, {"evaluation": Artifact(str(tmp_path))}))
    request = RunRequest(SPEC, None, str(tmp_path), tmp_path)
    assert summarize(request, tmp_path, steps, RunEnd("failed", "no", 2.0), None).blessed is None


def test_a_model_that_is_not_pushed_has_no_version(tmp_path: Path) -> None:
    assert _judged_run(tmp_path, pushed=False).pushed is None


@pytest.mark.parametrize(
    ("there", "is_withdrawn", "lines"),
    [
        (["20240307001"], False, ["pushed: version 20240307001 in {folder}/20240307001", "live: version 20240307001"]),
        (
            ["20240307001", "20240307002"],
            False,
            ["pushed: version 20240307001 ... {folder}/20240307001 ... not live", "live: version 20240307002"],
        ),
        ([], False, ["pushed: version 20240307001 ... {folder}/20240307001 ... not live", "live: nothing"]),
        (
            ["20240306001"],
            True,
            [
                "pushed: nothing ... 20240307001 ... (likes fell)",
                "live: version 20240306001",
            ],
        ),
    ],
    ids=["live", "replaced", "deleted", "rolled back"],
)
def test_the_end_of_a_run_says_what_is_live(
    there: list[str], is_withdrawn: bool, lines: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "serving" / "census_income"
    for version in [*there, *(["20240307001"] if is_withdrawn else [])]:
        (folder / version).mkdir(parents=True)
        (folder / version / "saved_model.pb").write_text("graph")
    if is_withdrawn:
        withdraw(folder, because="likes fell", now=datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC))
    push = DirectoryPush(kind="directory", path="serving/census_income")
    request = RunRequest(SPEC.model_copy(update={"push": push}), None, str(tmp_path), tmp_path)
    model = {"pushed": 1, "version": "20240307001", "path": str(folder / "20240307001")}
    steps = named(Step("pusher", "cached", 0.5, 0, {"pushed_model": Artifact("unused", model)}))
    summary = summarize(request, tmp_path, steps, RunEnd(None, None, 2.0), None)
    assert _says(_report(summary)[:2], [lines[0].format(folder=folder), f"{lines[1]} ... {folder}"])


def test_a_run_that_failed_before_its_first_step_has_a_summary(tmp_path: Path) -> None:
    request = RunRequest(SPEC, None, str(tmp_path), tmp_path)
    summary = summarize(request, tmp_path, {}, RunEnd("failed", "ImportError: nothing works", 0.1), None)
    assert (summary.status, summary.error, summary.failed_step) == ("failed", "ImportError: nothing works", None)
    assert (summary.rows, summary.tasks, summary.blessed) == ({}, {}, None)


def test_the_step_that_did_not_end_is_named(tmp_path: Path) -> None:
    request = RunRequest(SPEC, None, str(tmp_path), tmp_path)
    steps = named(Step("example_gen", "ran", 1.0, 0), Step("statistics_gen", "stopped", 1.0, 0))
    assert summarize(request, tmp_path, steps, RunEnd("stopped", "", 2.0), None).failed_step == "statistics_gen"


def test_a_summary_is_written_whole(tmp_path: Path) -> None:
    summary = _judged_run(tmp_path, pushed=True)
    path = write_record(summary)
    assert RunRecord.model_validate_json(path.read_text()).text() == path.read_text()
    assert json.loads(path.read_text())["tasks"]["income"]["gates"][1]["passed"] is False
    assert sorted(found.name for found in tmp_path.iterdir()) == ["infra_verdict.json", "summary.json", "verdict.json"]


@pytest.mark.parametrize(
    ("status", "blessed", "code"),
    [
        ("pushed", True, 0),
        ("blessed", True, 0),
        ("refused", False, 3),
        ("failed", None, 1),
        ("failed", True, 1),
        ("stopped", None, 143),
    ],
)
def test_the_exit_code_says_how_it_ended(tmp_path: Path, status: str, blessed: bool | None, code: int) -> None:
    summary = _judged_run(tmp_path, pushed=True).model_copy(update={"status": status, "blessed": blessed})
    assert exit_code(summary, 143) == code
    assert exit_code(summary, 143, is_mistake=True) == (2 if code == 1 else code)


def _report(summary: RunRecord) -> list[str]:
    shown = io.StringIO()
    print_report(summary, terminal(shown))
    return [" ".join(line.split()) for line in shown.getvalue().splitlines()]


def _says(lines: list[str], parts: list[str]) -> bool:
    """Returns whether each line mentions its parts."""
    return len(lines) == len(parts) and all(map(mentions, lines, parts))


def test_the_report_gives_every_gates_reason_and_the_models_place(tmp_path: Path) -> None:
    assert _says(
        _report(_judged_run(tmp_path, pushed=True)),
        [
            "task metric value pred/obs ECE labels bound last model difference",
            "income auc 0.9100 at least 0.9 none",
            "",
            "task gate verdict reason",
            "income auc 0.9 pass auc 0.9100 is at least 0.9000",
            "auc change 0.005 fail auc [0.9100] is worse",
            "serving: 12.3 MB ... 3.2 s ... p50 4.12 ms, p99 6.5 ms (200 candidates, clients: 2) ... 2 of 2",
            "note: no blessed model yet",
            "note: serving.max_p99_ms is not declared",
            "not blessed: ... quality gates",
            "pushed: version 20240307 ... /serving/20240307 ... not live",
            f"live: nothing ... {tmp_path}/serving/census_income",
            "refused ... 2.0 s ... 1 of 3 ... 3.15 MB",
        ],
    )


def test_the_report_gives_the_reason_of_each_serving_check_that_failed(tmp_path: Path) -> None:
    lines = _report(_judged_run(tmp_path, pushed=False, served=REFUSED))
    [index] = [number for number, line in enumerate(lines) if line.startswith("serving: ")]
    assert mentions(lines[index], "1 of 2")
    assert lines[index + 1] == "fail latency: p99 61 ms [of 90 requests] is above serving.max_p99_ms 50"
    assert any(mentions(line, "not blessed: ... quality gates ... serving check") for line in lines)


def test_the_report_says_where_a_gate_stands_and_leaves_out_what_every_model_holds(tmp_path: Path) -> None:
    def gate(**fields: Any) -> GateVerdict:
        told = {"kind": "value", "metric": "auc", "bound": 0.6, "value": 0.7, "passed": True, "reason": "so", **fields}
        return GateVerdict.model_validate(told)

    finite = {"kind": "finite", "metric": "non_finite", "bound": 0.0}
    task = TaskVerdict(
        metrics={"auc": 0.91, "calibration": 1.0212, "calibration_error": 0.01},
        intervals={"auc": (0.9, 0.92)},
        slices={},
        gates=[gate(**finite), gate(slice="tab=[a]", upper_bound=0.8, passed=False), gate()],
    )
    broken = TaskVerdict(metrics={"rmse": None}, slices={}, gates=[gate(**finite, passed=False, reason="7 are NaN")])
    bare = TaskVerdict(metrics={"auc": 0.5}, slices={}, gates=[gate(**finite)])
    verdict = VERDICT.model_copy(update={"tasks": {"like": task, "watch": broken, "share": bare}})
    assert _report(_judged_run(tmp_path, pushed=False, verdict=verdict))[:9] == [
        "task metric value pred/obs ECE labels bound last model difference",
        "like auc 0.9100 [0.9000, 0.9200] 1.021 0.0100 at least 0.6 none",
        "watch rmse undefined none none",
        "share auc 0.5000 none none",
        "",
        "task on gate verdict reason",
        "like tab=[a] auc 0.6 to 0.8 fail so",
        "all auc 0.6 pass so",
        "watch all finite fail 7 are NaN",
    ]


def test_a_users_mistake_is_found_behind_other_errors() -> None:
    def fail() -> None:
        try:
            raise UserError("data: no files (got none)")
        except UserError as mistake:
            raise RuntimeError("a worker failed") from mistake

    with pytest.raises(RuntimeError) as caught:
        fail()
    assert tells(error_text(caught.value), "data", "(got none)")
    assert error_text(ValueError("bad\n")) == "ValueError: bad"


def test_a_tasks_row_has_its_own_metric_beside_the_last_models(tmp_path: Path) -> None:
    def gate(metric: str, bound: float) -> GateVerdict:
        return GateVerdict(kind="value", metric=metric, bound=bound, value=1.0, passed=True, reason="so")

    price = TaskVerdict(
        metrics={"rmse": 2.5, "mae": 1.25, "mean_label": 12.31},
        intervals={"mae": (1.2, 1.3)},
        baseline={"mae": 1.0},
        differences={"mae": Difference(value=0.25, lower=0.125, upper=0.375)},
        gates=[gate("calibration", 0.5), gate("mae", 2.0)],
    )
    like = TaskVerdict(metrics={"gauc": 0.7, "mean_label": 0.0981}, gates=[gate("gauc", 0.6), gate("gauc", 0.65)])
    verdict = VERDICT.model_copy(update={"tasks": {"price": price, "like": like}})
    assert _report(_judged_run(tmp_path, pushed=False, verdict=verdict))[1:3] == [
        "price mae 1.2500 [1.2000, 1.3000] mean 12.31 at most 2 1.0000 +0.2500 [+0.1250, +0.3750]",
        "like gauc 0.7000 9.81 % positive at least 0.65 none",
    ]


def test_warnings_come_from_drift_and_the_verdict_and_are_in_the_last_line(tmp_path: Path) -> None:
    far = {"feature": "user", "measure": "l_infinity", "value": 0.3, "bound": 0.1, "is_within": False, "reason": "far"}
    near = {**far, "is_within": True, "reason": "near"}
    (tmp_path / "drift.json").write_text(json.dumps([far, near]))
    verdict = VERDICT.model_copy(update={"blessed": True, "warnings": ["like: off"], "tasks": {}})
    (tmp_path / "verdict.json").write_text(verdict.model_dump_json())
    noted = Artifact(str(tmp_path), {"note": "drift: far\nold"})
    steps = named(
        Step("example_validator", "ran", 1.0, 0, {"anomalies": noted}),
        Step("evaluator", "ran", 1.0, 0, {"evaluation": Artifact(str(tmp_path))}),
    )
    ended = summarize(RunRequest(SPEC, None, str(tmp_path), tmp_path), tmp_path, steps, RunEnd(None, None, 1.0), None)
    assert (ended.warnings, ended.notes) == (["drift: far", "like: off"], ["old", "no blessed model yet"])
    lines = _report(ended)
    assert lines[:2] == ["warning: drift: far", "warning: like: off"]
    assert lines[-1].startswith("ended, with 2 warnings, after 1.0 s;")


def test_drift_that_warns_is_a_note_for_each_feature(tmp_path: Path) -> None:
    noted = Artifact("unused", {"note": "drift: user: l_infinity 0.3\ndrift: age: missing_share 0.5"})
    steps = named(Step("example_validator", "ran", 1.0, 2**20, {"anomalies": noted}))
    request = RunRequest(SPEC, None, str(tmp_path), tmp_path)
    summary = summarize(request, tmp_path, steps, RunEnd(None, None, 1.0), None)
    assert summary.notes == ["drift: user: l_infinity 0.3", "drift: age: missing_share 0.5"]


def test_rows_that_were_left_out_and_what_joins_have_found_are_kept_and_printed(tmp_path: Path) -> None:
    joined = {"items": {"rows with a version": 1_180, "rows without a version": 20}, "likes": {}}
    train = {"num_files": 1, "read": 1_200, "written": 1_000, "dropped": {"no version in items": 20}}
    sampled = {"negatives": 400, "negatives_sampled_out": 180, "joined": joined}
    splits = {
        "train": train | sampled,
        "eval": {"num_files": 1, "read": 90, "written": 390, "dropped": {}, "candidates": {"sampled rows": 300}},
    }
    report = {"date": None, "days": {}, "missing_days": [], "splits": splits}
    (tmp_path / "ingestion.json").write_text(json.dumps(report))
    steps = named(Step("example_gen", "ran", 1.0, 0, {"examples": Artifact(str(tmp_path))}))
    request = RunRequest(SPEC, None, str(tmp_path), tmp_path)
    summary = summarize(request, tmp_path, steps, RunEnd("failed", "no", 2.0), None)
    assert summary.rows["train"].joined == joined
    assert _says(
        _report(summary)[:4],
        [
            "train: 1,000 ... 1,200 ... 20 no version in items, 180 negatives",
            "items: 1,180 rows with a version, 20 rows without a version",
            "likes: no rows",
            "eval: 90 rows; sampled rows: 300",
        ],
    )
