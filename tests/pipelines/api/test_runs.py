"""Runs of a root in Python: as frames, as a page, and in the words of the commands."""

import datetime
import html
import json
from pathlib import Path

import pandas as pd
import pytest

import sangam
from sangam.components.record.lock import locked
from sangam.components.reports.evaluation import FILE_NAME, GateVerdict, TaskVerdict, Verdict
from sangam.components.reports.spec_file import write_spec
from sangam.schemas.contracts.root import Root
from sangam.schemas.loading import load_spec
from tests.components.record.sample_records import gate
from tests.components.registry.sample_blessings import blessing
from tests.errors import place_and_value
from tests.paths import SPECS
from tests.pipelines.history.command import sangam as command
from tests.pipelines.ui.sample_root import (
    AUCS,
    FAILED,
    NEW,
    RANKER,
    REFUSED,
    day,
    run_id,
    write_running,
    write_runs,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return write_runs(tmp_path_factory.mktemp("root"))


@pytest.fixture
def root(written: Root) -> sangam.Root:
    return sangam.Root(written.path)


def test_runs_are_had_newest_first_and_by_the_beginning_of_an_id(root: sangam.Root) -> None:
    assert [run.id for run in root.runs()] == [run_id(number) for number in (4, 3, 2, 1, 0)]
    assert root.runs(RANKER) == root.runs()
    assert root.latest == root.run(run_id(NEW)) == root.run(run_id(NEW)[:8])
    for ask in (lambda: root.run("2025"), lambda: root.run("2024")):
        with pytest.raises(sangam.UserError, match=place_and_value("RUN", "(got ...")):
            ask()


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    root = sangam.Root(tmp_path)
    for ask in (root.runs, root.frame, lambda: root.live(RANKER)):
        with pytest.raises(sangam.UserError, match=place_and_value("ROOT", str(tmp_path))):
            ask()
    with pytest.raises(sangam.UserError, match=place_and_value("RUN", str(tmp_path))):
        root.latest  # noqa: B018


def test_the_frame_has_a_row_for_each_run_and_the_main_metric_of_each_task(root: sangam.Root) -> None:
    frame = root.frame()
    assert frame.run.tolist() == [run.id for run in root.runs()]
    assert frame.state.tolist() == ["pushed", "failed", "refused", "pushed", "pushed"]
    assert frame.date.tolist() == [pd.Timestamp(day(number)) for number in (4, 3, 2, 1, 0)]
    assert frame.started[0] == pd.Timestamp("2024-03-09 02:00")
    assert frame.seconds.tolist() == [452.0, 442.0, 432.0, 422.0, 412.0]
    assert frame.version.isna().tolist() == [False, True, True, False, False]
    expected = [AUCS[number] for number in (4, 3, 2, 1, 0)]
    assert frame["like.auc"].tolist() == pytest.approx([value or float("nan") for value in expected], nan_ok=True)
    assert "share.auc" in frame


def test_a_failed_run_says_why_as_the_command_does(root: sangam.Root, written: Root) -> None:
    run = root.run(run_id(FAILED))
    assert (run.state, run.ranker, run.date, run.seconds) == ("failed", RANKER, datetime.date(2024, 3, 7), 442.0)
    assert run.why() == command("why", str(written.run(run.id).path)).stdout.rstrip("\n")
    assert run.model is None
    assert run.page is None
    assert "rank 1 was killed" in run._repr_html_()
    assert "iframe" not in run._repr_html_()
    failed = sangam.RunFailed(run)
    assert (str(failed), failed.run, failed.is_mistake) == (run.why(), run, False)


def test_metrics_and_gates_are_those_of_the_record(root: sangam.Root) -> None:
    refused = root.run(run_id(REFUSED))
    like = refused.metrics.query("task == 'like'").set_index("metric")
    assert like.value.to_dict() == {"auc": 0.7301, "log_loss": 0.2699, "calibration": 1.02, "num_examples": 9800.0}
    assert set(refused.metrics["slice"]) == {"all"}
    [row] = refused.gates.to_dict("records")
    assert (row["task"], row["metric"], row["bound"], row["passed"]) == ("like", "auc", 0.6, False)


def test_frames_without_rows_have_their_columns(root: sangam.Root) -> None:
    failed = root.run(run_id(FAILED))
    assert failed.metrics.columns.tolist() == root.latest.metrics.columns.tolist()
    assert failed.gates.empty
    assert failed.tables.dtypes["rows"] == "Int64"


def test_steps_have_their_states_and_seconds(root: sangam.Root) -> None:
    steps = root.run(run_id(FAILED)).steps.set_index("step")
    assert steps.state.to_dict() == {
        "example_gen": "ran",
        "statistics_gen": "ran",
        "transform": "ran",
        "trainer": "failed",
    }
    assert steps.seconds["trainer"] == 223.0


def test_the_page_is_shown_in_a_frame_without_scripts(root: sangam.Root) -> None:
    run = root.latest
    shown = run._repr_html_()
    assert run.page == run.folder / "report.html"
    assert shown.startswith("<iframe sandbox ")
    document = html.unescape(shown.split('srcdoc="')[1].split('"')[0])
    assert document == run.page.read_text()


def test_the_model_is_the_pushed_version_until_it_is_removed(tmp_path: Path) -> None:
    written = write_runs(tmp_path)
    run = sangam.Root(tmp_path).latest
    version = tmp_path / "serving" / RANKER / "20240308001"
    assert run.model == str(version)
    version.rmdir()
    assert sangam.Root(written.path).latest.model is None


def test_slices_are_read_from_the_evaluators_output_while_it_is_there(tmp_path: Path) -> None:
    written = write_runs(tmp_path)
    output = written.artifacts / "evaluator" / "evaluation" / str(NEW)
    task = TaskVerdict(
        metrics={"auc": 0.7},
        intervals={"auc": (0.6, 0.8)},
        baseline={"auc": 0.65},
        slices={"tab=home": {"auc": 0.5, "pr_auc": None}},
        slice_intervals={"tab=home": {"auc": (0.4, 0.6)}},
        gates=[_gate_of_slice()],
    )
    verdict = Verdict(blessed=True, baseline=None, notes=[], tasks={"like": task})
    (output / FILE_NAME).write_text(verdict.model_dump_json())
    run = sangam.Root(tmp_path).latest
    nan = float("nan")
    assert [list(row) for row in run.metrics.fillna("none").values] == [
        ["like", "all", "auc", 0.7, 0.6, 0.8, 0.65],
        ["like", "tab=home", "auc", 0.5, 0.4, 0.6, "none"],
        ["like", "tab=home", "pr_auc", "none", "none", "none", "none"],
    ]
    assert run.gates["slice"].tolist() == ["tab=home"]
    assert nan != run.metrics.value[2]


def _gate_of_slice() -> GateVerdict:
    return gate(True, "auc 0.5").model_copy(update={"slice": "tab=home"})


def test_the_spec_is_that_of_the_run(tmp_path: Path) -> None:
    written = write_runs(tmp_path)
    run = sangam.Root(tmp_path).latest
    with pytest.raises(sangam.SpecError, match=place_and_value("tasks", "missing")):
        run.spec  # noqa: B018
    spec = load_spec(SPECS / "short_video.yaml")
    write_spec(run.folder, spec)
    assert sangam.Root(written.path).latest.spec.declared == spec
    (run.folder / "spec.json").unlink()
    with pytest.raises(sangam.UserError, match=place_and_value(str(run.folder / "spec.json"), "No such file")):
        sangam.Root(written.path).latest.spec  # noqa: B018


def test_a_run_under_way_has_its_steps_so_far(tmp_path: Path) -> None:
    written = write_runs(tmp_path)
    run, now = "20240310T020000-1a2b3c4d", datetime.datetime(2024, 3, 10, 2, tzinfo=datetime.UTC)
    with locked(tmp_path):
        write_running(written, run, now=now.timestamp())
        running = sangam.Root(tmp_path).latest
        assert (running.id, running.state, running.date) == (run, "running", datetime.date(2024, 3, 9))
        assert running.steps.state.tolist() == ["ran"] * 3 + ["running"] + ["waiting"] * 3
        assert running.metrics.empty
        assert "running" in running._repr_html_()


def test_the_live_version_is_the_newest_in_the_folder_of_the_last_push(tmp_path: Path) -> None:
    write_runs(tmp_path)
    root = sangam.Root(tmp_path)
    assert root.live(RANKER) is None
    record = blessing("m", pushed=f"serving/{RANKER}/20240305001")
    blessed = Path(Root(str(tmp_path)).blessed(RANKER))
    blessed.mkdir(parents=True)
    (blessed / "00000001.json").write_text(record.model_dump_json())
    for version in ("20240305001", "20240308001"):
        (tmp_path / "serving" / RANKER / version / "saved_model.pb").touch()
    assert root.live(RANKER) == str(tmp_path / "serving" / RANKER / "20240308001")
    with pytest.raises(sangam.UserError, match=place_and_value("--name", "(got other)")):
        root.live("other")


def test_runs_are_told_in_a_line(root: sangam.Root) -> None:
    assert repr(root.latest) == f"Run({run_id(NEW)}, {RANKER}, 2024-03-08, pushed)"
    assert repr(root) == f"Root({str(root.path)!r})"
    assert json.loads((root.latest.folder / "summary.json").read_text())["status"] == root.latest.state
