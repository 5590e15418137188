"""What the record of a run holds: the reports of its steps, under the keys of summary.json."""

import datetime
import json
from pathlib import Path
from typing import Any

from sangam.components.record.journal import Journal
from sangam.components.record.kubeflow import end_task, record_of, task_file
from sangam.components.record.outcome import outcome_of
from sangam.components.record.run import Artifact, RunRecord, Step, read_reports
from sangam.components.record.store import find_run, read_run, read_runs, runs_before, stored, write_record
from sangam.pipelines.local.request import RunRequest
from sangam.pipelines.local.result.outcome import RunEnd, summarize
from sangam.schemas.contracts.root import Root
from sangam.schemas.loading import load_spec
from tests.components.record.sample_outputs import EVALUATION, write_reports
from tests.components.record.sample_records import record
from tests.components.record.sample_steps import write_step
from tests.paths import REPOSITORY, SPECS

GOLDEN: dict[str, Any] = json.loads((REPOSITORY / "tests" / "golden" / "summary.json").read_text())
KUBEFLOW = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


def whole(folder: Path) -> RunRecord:
    """Returns the record of a run that came to its end."""
    at = {name: Artifact(str(path)) for name, path in write_reports(folder).items()}
    notes = {"example_validator": "drift: a\ndrift: b", "transform": "reused"}
    outputs = {
        "example_gen": {"examples": at["examples"]},
        "example_validator": {"anomalies": Artifact("unused", {"note": notes["example_validator"]})},
        "transform": {"transform_graph": Artifact("unused", {"note": notes["transform"]})},
        "trainer": {"training": at["training"]},
        "evaluator": {"evaluation": at["evaluation"]},
        "infra_validator": {"blessing": at["infra_blessing"]},
        "pusher": {
            "pushed_model": Artifact("unused", {"pushed": 1, "version": "20240307001", "path": "/s/20240307001"})
        },
    }
    steps = {
        name: Step(name, "cached" if name == "example_gen" else "ran", 1.5, 2**20, made, 0.5)
        for name, made in outputs.items()
    }
    request = RunRequest(load_spec(SPECS / "short_video.yaml"), datetime.date(2024, 3, 7), "/logs", Path("/nowhere"))
    run = Path("/nowhere/runs/20240308T020000-1a2b3c4d")
    ended = summarize(request, run, steps, RunEnd(None, None, 9.0), "c0ffee")
    cost = {"currency": "EUR", "by_step": {"trainer": 1.0}, "total": 1.5, "per_million_examples": 2.0}
    made = ended.model_dump() | {"cost": {**cost, "training_per_billion_samples": None}, "exit_code": 3}
    return RunRecord.model_validate({**made, "spec_digest": "d"})


def missing(golden: Any, found: Any, path: str = "") -> list[str]:
    """Returns the paths whose value is not the golden one; what is new is no difference."""
    if isinstance(golden, dict) and isinstance(found, dict):
        return [each for key, value in golden.items() for each in missing(value, found.get(key, "?"), f"{path}.{key}")]
    return [] if golden == found else [f"{path}: {golden} is {found}"]


def test_summary_json_keeps_its_keys(tmp_path: Path) -> None:
    document = json.loads(whole(tmp_path).text())
    assert missing(GOLDEN, document) == []
    assert list(document["tasks"]["like"]) == [
        "metrics",
        "intervals",
        "baseline",
        "differences",
        "gates",
        "auc",
        "rmse",
    ]
    assert list(document["steps"]["pusher"]) == ["state", "seconds", "peak_memory_bytes", "cpu_seconds", "cached"]


def test_the_reports_are_in_the_record_as_they_are(tmp_path: Path) -> None:
    folders = write_reports(tmp_path)
    fields, reports = read_reports(folders).fields(), read_reports(folders)
    assert reports.ingestion
    assert fields["rows"] is not reports.ingestion.splits
    assert fields["rows"] == reports.ingestion.splits
    assert (fields["training"], fields["serving"]) == (reports.training, reports.serving)
    assert fields["tasks"]["like"].slices == EVALUATION["tasks"]["like"]["slices"]
    assert read_reports({}).fields() == {
        "training": None,
        "serving": None,
        "notes": [],
        "warnings": [],
        "blessed": None,
    }


def test_a_run_on_kubeflow_leaves_the_same_record(tmp_path: Path) -> None:
    root = Root(str(tmp_path / "root"))
    run = root.run(KUBEFLOW)
    write_step(run, Step("trainer", "ran", 60.0, started_at=1_709_863_300.0))
    write_step(run, Step("example_gen", "ran", 20.0, started_at=1_709_863_200.0))
    inputs = write_reports(tmp_path / "reports")
    made = record_of(run, "small", "2024-03-07", inputs, now=1_709_863_400.0)
    write_record(made)
    local = root.run("20240307T020000-1a2b3c4d").path
    local.mkdir()
    write_record(record(run=local.name, path=str(local), name="small"))
    newest, before = read_runs(root.path)
    assert (newest.id, newest.state, newest.date, before.id) == (KUBEFLOW, "refused", "2024-03-07", local.name)
    assert newest.record
    assert newest.record.total_seconds == 200.0
    # The steps between left nothing: they had no pod.
    assert {name: step.cached for name, step in newest.record.steps.items()} == {
        **{"example_gen": False, "schema_gen": True, "statistics_gen": True, "example_validator": True},
        **{"transform": True, "trainer": False},
    }
    assert outcome_of(newest).sentence == "not pushed: a gate refused the model: like: auc is worse"
    assert [other.id for other in runs_before(newest.record)] == [local.name]
    for given in (root.path, root.runs / "latest", root.runs / KUBEFLOW[:4], run.path):
        assert find_run(given).id == KUBEFLOW


def test_a_run_on_kubeflow_is_listed_while_its_pods_tell_of_it_and_then_is_lost(tmp_path: Path) -> None:
    root, now = Root(str(tmp_path)), 1_709_863_200.0
    run = root.run(KUBEFLOW)
    journal = Journal(lambda: now, task_file(run, "transform"))
    journal.opened(run.path, date="2024-03-07", ranker="small")
    journal.step_started("transform")
    end_task(run.tasks / "transform", "transform", "", now + 20.0)
    journal = Journal(lambda: now + 40.0, task_file(run, "trainer"))
    journal.step_started("trainer")
    under_way = read_run(run, lambda: now + 100.0)
    assert (under_way.state, under_way.ranker, under_way.date) == ("running", "small", "2024-03-07")
    assert [(step.name, step.state) for step in under_way.steps.values()][3:7] == [
        ("example_validator", "cached"),
        ("transform", "ran"),
        ("trainer", "running"),
        ("evaluator", "waiting"),
    ]
    assert under_way.steps["transform"].seconds == 20.0
    [lost] = read_runs(root.path)
    assert lost.state == "killed"
    outcome = outcome_of(lost)
    assert outcome.sentence == "lost in trainer: its pod has not been heard of since 2024-03-08 02:00 UTC"
    assert "sangam status small --host URL" in outcome.advice[0]
    end_task(run.tasks / "trainer", "trainer", "", now + 50.0)
    assert outcome_of(read_run(run, lambda: now + 1e6)).short == "lost after trainer"


def test_a_version_is_looked_for_where_the_root_lies_now(tmp_path: Path) -> None:
    folder = Root(str(tmp_path)).run(KUBEFLOW)
    folder.path.mkdir(parents=True)
    version = tmp_path / "serving" / "20240307001"
    version.mkdir(parents=True)
    pushed = {"version": version.name, "path": f"/mnt/sangam/serving/{version.name}"}
    made = record(run=KUBEFLOW, path=f"/mnt/sangam/runs/{KUBEFLOW}", pushed=pushed)
    folder.summary.write_text(made.text())
    assert outcome_of(read_run(folder)).sentence == "pushed as version 20240307001: every gate passed"
    assert outcome_of(stored(made)).sentence.endswith("; the version was removed since")
