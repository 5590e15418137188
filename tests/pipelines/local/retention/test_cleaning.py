"""Real runs of TFX and ML Metadata, cleaned: what runs again, what comes from the cache, what is compared with."""

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry.blessed import baseline_for, read_all
from sangam.components.registry.record import read_records
from sangam.components.registry.versions import restore, versions, withdraw
from sangam.pipelines.local.outputs import read_outputs
from sangam.pipelines.local.retention import removal
from sangam.pipelines.local.retention.cleaning import Cleaning, clean
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec.keep import Keep
from tests.components.record.sample_records import record

pytestmark = pytest.mark.slow

KEEP = Keep(runs=1, models=2, checkpoints=2)
NOW = datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC)


class CleanedRoot:
    """A root in which runs train the model that they are told to."""

    def __init__(self, path: Path):
        self.root, self._num_runs = Root(str(path)), 0
        self.serving = path / "serving" / "tiny"

    def run(self, content: str, failed: str = "") -> dict[str, str]:
        """Runs the pipeline; returns what became of each step of the run."""
        from tests.pipelines.local.sample_judged_pipeline import judged_run

        self._num_runs += 1
        run = f"20240307T0000{self._num_runs:02d}-aaaaaaaa"
        folder = judged_run(self.root.path, run, failed=failed, content=content)
        (folder / "summary.json").write_text(record(run=run, path=str(folder)).text())
        return self._states(run)

    def clean(self) -> Cleaning:
        """Cleans by the rule."""
        return clean(self.root, "short_video", KEEP, None)

    def models(self) -> list[str]:
        """Returns what is in the models that are left."""
        return sorted(file.read_text() for file in self.root.artifacts.glob("trainer/model/*/*/saved_model.pb"))

    def baseline(self) -> str:
        """Returns what is in the model that a new one is compared with."""
        uri = baseline_for("new", read_all(self.root.blessed("short_video")))
        return (Path(str(uri)) / "Format-Serving" / "saved_model.pb").read_text()

    def live(self) -> str:
        """Returns what is in the version that servers take."""
        return (self.serving / versions(self.serving)[-1] / "saved_model.pb").read_text()

    def _states(self, run: str) -> dict[str, str]:
        from ml_metadata.proto import metadata_store_pb2 as mlmd
        from tfx.orchestration import metadata

        config: Any = metadata.sqlite_metadata_connection_config(str(self.root.metadata))
        with metadata.Metadata(config) as handle:
            context = handle.store.get_context_by_type_and_name("pipeline_run", run)
            found = {}
            for execution in handle.store.get_executions_by_context(context.id):
                [node] = [
                    each.name.rsplit(".", 1)[1]
                    for each in handle.store.get_contexts_by_execution(execution.id)
                    if each.type == "node"
                ]
                found[node] = mlmd.Execution.State.Name(execution.last_known_state)
        return found


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> CleanedRoot:
    """A root of four runs, a refused one among them, after a clean; the tests go on from one another."""
    root = CleanedRoot(tmp_path_factory.mktemp("cleaned"))
    for content, failed in (("a", ""), ("b", "value"), ("c", ""), ("d", "")):
        root.run(content, failed)
    root.clean()
    return root


def test_a_clean_leaves_the_newest_run_and_two_models_and_ml_metadata_knows(cleaned: CleanedRoot) -> None:
    assert [run.path.name for run in cleaned.root.run_folders()] == ["20240307T000004-aaaaaaaa"]
    assert cleaned.models() == ["c", "d"]
    assert (cleaned.live(), cleaned.baseline()) == ("d", "d")
    assert versions(cleaned.serving) == ["20240307002", "20240307003"]
    outputs = read_outputs(cleaned.root).outputs
    assert {output.path.is_dir() for output in outputs if output.is_live} == {True}
    assert {output.path.is_dir() for output in outputs if not output.is_live} == {False}
    # Whom the gates and people have blessed stays on record.
    assert len(read_records(cleaned.root.path, "short_video")) == 3
    assert not cleaned.root.removed.exists()


def test_a_second_clean_removes_nothing(cleaned: CleanedRoot) -> None:
    assert cleaned.clean().gone == ()


def test_the_newest_run_comes_from_the_cache_after_a_clean(cleaned: CleanedRoot) -> None:
    assert set(cleaned.run("d").values()) == {"CACHED"}


def test_a_run_whose_outputs_are_gone_runs_again(cleaned: CleanedRoot) -> None:
    states = cleaned.run("a")
    assert states["trainer"] == states["evaluator"] == states["pusher"] == "COMPLETE"
    assert states["example_gen"] == "CACHED"
    assert (cleaned.live(), cleaned.baseline()) == ("a", "a")


def test_after_a_rollback_the_version_before_is_the_baseline_also_after_a_clean(cleaned: CleanedRoot) -> None:
    withdraw(cleaned.serving, because="likes fell", now=NOW)
    assert (cleaned.live(), cleaned.baseline()) == ("d", "d")
    cleaned.clean()
    assert (cleaned.live(), cleaned.baseline()) == ("d", "d")
    # What was withdrawn may be put back, and is whole.
    restore(cleaned.serving, "20240307004")
    cleaned.clean()
    assert (cleaned.live(), cleaned.baseline()) == ("a", "a")


def test_a_clean_that_is_killed_before_ml_metadata_is_told_is_made_up_for(
    cleaned: CleanedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    cleaned.run("e")
    cleaned.run("f")
    monkeypatch.setattr(removal, "mark_deleted", killed)
    with pytest.raises(KeyboardInterrupt):
        cleaned.clean()
    monkeypatch.undo()
    assert any(cleaned.root.removed.iterdir())
    # Nothing half is in the place of what is gone: it runs again.
    assert cleaned.run("d")["trainer"] == "COMPLETE"
    cleaned.clean()
    outputs = read_outputs(cleaned.root).outputs
    assert {output.path.is_dir() for output in outputs if output.is_live} == {True}
    assert not cleaned.root.removed.exists()


def test_what_was_removed_by_hand_runs_again(cleaned: CleanedRoot) -> None:
    assert cleaned.run("d")["trainer"] == "CACHED"
    newest = max((cleaned.root.artifacts / "trainer" / "checkpoint").iterdir(), key=lambda path: int(path.name))
    shutil.rmtree(newest)
    assert cleaned.run("d")["trainer"] == "COMPLETE"


def test_a_dry_run_removes_nothing_and_says_why(cleaned: CleanedRoot) -> None:
    from tests.pipelines.history.command import sangam

    before = sorted(cleaned.root.path.rglob("*"))
    options = ("--runs", "1", "--models", "2", "--checkpoints", "2")
    document = json.loads(sangam("clean", cleaned.root.uri, "--dry-run", "--json", *options).stdout)
    assert sorted(cleaned.root.path.rglob("*")) == before
    [ranker] = document["rankers"]
    assert ranker["bytes"] == sum(each["bytes"] for each in ranker["gone"]) > 0
    # The models that are left are blessed, or their versions stay.
    assert {each["kind"] for each in ranker["gone"]} == {"run", "output"}
    assert {each["kind"] for each in ranker["stays"]} == {"run", "output", "model", "checkpoint", "version"}
    assert all(each["why"] for each in (*ranker["gone"], *ranker["stays"]))
    told = sangam("clean", cleaned.root.uri, "--dry-run", *options).stdout
    assert told.count("would remove") == len(ranker["gone"]) + 1
