"""`sangam bless`: what a person may override, and where it is written down."""

import datetime
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sangam.components.record.store import write_record
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import digest
from tests.components.record.sample_records import record
from tests.errors import mentions, place_and_value, tells
from tests.paths import SPECS

pytestmark = pytest.mark.slow

NOW = datetime.datetime(2024, 3, 8, 9, 30, tzinfo=datetime.UTC)
SPEC = SPECS / "short_video.yaml"
BECAUSE = "the tab is being retired"


def bless(run: Path, because: str = BECAUSE, by: str = "mira") -> Any:
    from sangam.pipelines.local.bless import bless

    return bless(run, because=because, by=by, now=NOW)


def store_of(root: Path) -> Any:
    from ml_metadata import MetadataStore
    from tfx.orchestration import metadata

    return MetadataStore(metadata.sqlite_metadata_connection_config(str(root / "metadata.sqlite")))


def registered(root: Path) -> Any:
    from sangam.components.registry.blessed import read_all

    return read_all(Root(str(root)).blessed("short_video"))


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a model that a quality gate refused; tests copy its root."""
    from tests.pipelines.local.sample_judged_pipeline import judged_run

    return judged_run(tmp_path_factory.mktemp("refused") / "root")


@pytest.fixture(scope="module")
def blessed(refused: Path) -> tuple[Path, Any]:
    """The same run, blessed by hand."""
    return refused, bless(refused)


def test_a_refused_model_is_pushed_with_the_reason_in_its_manifest(blessed: tuple[Path, Any]) -> None:
    from tests.pipelines.local.sample_judged_pipeline import REASON

    run, done = blessed
    assert (done.run, done.by, done.because, done.was_there) == (run.name, "mira", BECAUSE, False)
    assert done.overridden == (f"like: {REASON}",)
    assert done.version == "20240307001"
    manifest = json.loads((Path(done.path) / "manifest.json").read_text())
    by_hand, note = manifest["notes"]
    assert mentions(by_hand, f"mira ... 2024-03-08T09:30:00+00:00 ... {BECAUSE} ... like: {REASON}")
    assert note == "a note"
    assert (Path(done.path) / "saved_model.pb").read_text() == "graph"


def test_the_blessing_is_recorded_in_ml_metadata_between_the_model_and_a_blessing(blessed: tuple[Path, Any]) -> None:
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    run, _ = blessed
    root = run.parent.parent
    store = store_of(root)
    [execution] = store.get_executions_by_type("sangam.ManualBlessing")
    assert {name: value.string_value for name, value in execution.properties.items()} == {
        "reason": BECAUSE,
        "who": "mira",
        "when": "2024-03-08T09:30:00+00:00",
        "run": run.name,
    }
    assert execution.last_known_state == mlmd.Execution.COMPLETE
    linked: dict[int, set[str]] = {}
    for event in store.get_events_by_execution_ids([execution.id]):
        [artifact] = store.get_artifacts_by_id([event.artifact_id])
        linked.setdefault(event.type, set()).add(artifact.type)
        if artifact.type == "ModelBlessing":
            assert artifact.custom_properties["blessed"].int_value == 1
            assert artifact.custom_properties["because"].string_value == BECAUSE
            assert (Path(artifact.uri) / "BLESSED").exists()
            model_uri = artifact.custom_properties["current_model"].string_value
        if artifact.type == "Model":
            assert Path(artifact.uri).parts[-3:-1] == ("trainer", "model")
    assert linked == {
        mlmd.Event.INPUT: {"Model", "ModelEvaluation"},
        mlmd.Event.OUTPUT: {"ModelBlessing", "PushedModel"},
    }
    assert model_uri == registered(root)[0].model_uri
    assert {context.type for context in store.get_contexts_by_execution(execution.id)} == {"pipeline", "pipeline_run"}


def test_the_model_is_the_next_baseline_and_base_and_says_by_whom(blessed: tuple[Path, Any]) -> None:
    [model] = registered(blessed[0].parent.parent)
    assert (model.because, model.by, model.blessed_at) == (BECAUSE, "mira", NOW)
    assert (model.days, model.metrics) == (("2024-03-06",), {"like": {"auc": 0.65}})
    assert model.ranker_digest == digest(load_spec(SPEC).ranker())
    assert model.checkpoint_uri


def test_a_second_time_it_is_blessed_already_and_nothing_changes(blessed: tuple[Path, Any]) -> None:
    run, first = blessed
    root = run.parent.parent
    for given in (run, run / "summary.json", root, root / "runs" / "latest", root / "runs" / run.name[:10]):
        again = bless(given, because="something else", by="noor")
        assert again.was_there
        assert (again.by, again.because, again.version) == ("mira", BECAUSE, first.version)
    assert len(store_of(root).get_executions_by_type("sangam.ManualBlessing")) == 1
    assert len(registered(root)) == 1
    assert sorted(path.name for path in (root / "serving" / "tiny").glob("2*")) == ["20240307001"]


def test_a_version_that_is_gone_is_not_pushed_again_but_said(tmp_path: Path) -> None:
    from tests.pipelines.local.sample_judged_pipeline import judged_run

    run = judged_run(tmp_path)
    shutil.rmtree(str(bless(run).path))
    assert mentions(bless(run).pushed_line(), "20240307001 ... withdrawn")


def test_a_blessing_that_was_killed_before_its_push_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.pipelines.local.sample_judged_pipeline import judged_run

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    run = judged_run(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("sangam.pipelines.local.bless._push", killed)
        with pytest.raises(KeyboardInterrupt):
            bless(run)
    assert not (tmp_path / "serving").exists()
    done = bless(run, because="something else")
    assert (done.was_there, done.because, done.version) == (True, BECAUSE, "20240307001")
    assert Path(done.path).is_dir()
    assert len(registered(tmp_path)) == 1


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ({"servable": False}, "serving check ... (got: p99 90 ms"),
        ({"failed": ""}, "blessed already"),
        ({"failed": "finite"}, "(got like: auc 0.6500"),
        ({"with_serving_check": False}, "no serving check"),
    ],
    ids=["not servable", "blessed", "no numbers", "older run"],
)
def test_what_nobody_overrides_is_refused_and_leaves_nothing(told: dict[str, Any], value: str, tmp_path: Path) -> None:
    from tests.pipelines.local.sample_judged_pipeline import judged_run

    run = judged_run(tmp_path / "root", **told)
    before = registered(tmp_path / "root")
    with pytest.raises(UserError, match=place_and_value(f"...{run.name}", value)):
        bless(run)
    assert registered(tmp_path / "root") == before
    assert not (tmp_path / "root" / "artifacts" / "manual_blessing").exists()


def test_a_result_that_seems_too_good_may_be_blessed_with_a_reason(tmp_path: Path) -> None:
    from tests.pipelines.local.sample_judged_pipeline import REASON, judged_run

    done = bless(judged_run(tmp_path / "root", failed="leak"))
    assert done.overridden == (f"like: {REASON}",)


def test_a_model_that_another_run_has_blessed_is_blessed_already(tmp_path: Path) -> None:
    from tests.pipelines.local.sample_judged_pipeline import judged_run

    runs = [judged_run(tmp_path, f"20240307T00000{number}-aaaaaaaa") for number in (1, 2)]
    bless(runs[0])
    with pytest.raises(UserError, match=place_and_value(f"...{runs[1].name}", f"mira ... {BECAUSE}")):
        bless(runs[1])


@pytest.mark.parametrize("because", ["", "  \n"])
def test_a_reason_is_needed(because: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--because: needs a reason"):
        bless(tmp_path, because)


def test_wrong_runs_are_told(refused: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("RUN", f"(got {tmp_path / 'runs' / 'none'}")):
        bless(tmp_path / "runs" / "none")
    with pytest.raises(UserError, match=place_and_value("RUN", f"(got {tmp_path}")):
        bless(tmp_path)
    unknown = refused.parent / "20240101T000000-bbbbbbbb"
    unknown.mkdir()
    with pytest.raises(UserError, match=place_and_value(unknown.name, "summary.json")):
        bless(unknown)
    known = {"run": unknown.name, "path": str(unknown)}
    write_record(record(**known, status="failed", failed_step="trainer", error="no rows", blessed=None))
    with pytest.raises(UserError, match=r"step trainer: no rows"):
        bless(unknown)
    write_record(record(**known, runner="kubeflow", blessed=False))
    with pytest.raises(UserError, match=place_and_value(unknown.name, "Kubeflow")):
        bless(unknown)
    write_record(record(**known, blessed=False))
    with pytest.raises(UserError, match=place_and_value("...", "metadata.sqlite")):
        bless(unknown)


def sangam_bless(run: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sangam.pipelines.cli", "bless", str(run), "--because", BECAUSE]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.long
def test_the_command_says_what_was_overridden_and_where_the_model_is(tmp_path: Path) -> None:
    from sangam.schemas.host.user import current_user
    from tests.pipelines.local.sample_judged_pipeline import REASON, judged_run

    run = judged_run(tmp_path)
    done = sangam_bless(run)
    assert (done.returncode, done.stderr) == (0, "")
    blessed, overridden, pushed = done.stdout.splitlines()
    assert mentions(blessed, f"blessed {run.name} ... {current_user()} ... {BECAUSE}")
    assert overridden == f"overridden: like: {REASON}"
    assert tells(pushed, "pushed", f"20240307001 ... {tmp_path / 'serving' / 'tiny' / '20240307001'}")


def test_a_root_in_use_is_told_by_the_command(refused: Path) -> None:
    from sangam.components.record.lock import locked

    with locked(refused.parent.parent):
        done = sangam_bless(refused)
    assert (done.returncode, done.stdout) == (ExitCode.ROOT_IN_USE, "")
    assert tells(done.stderr, "--root", "another run ... (got")
    assert "Traceback" not in done.stderr
