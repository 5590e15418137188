"""What a link leads to stays as it is, whatever is pushed, rolled back, kept, cleaned, exported or written."""

import datetime
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from sangam.components.registry.versions import restore, versions, withdraw
from sangam.components.steps.pusher.manifest import MODEL_FILE
from sangam.components.stream import landing
from sangam.pipelines.cli import app
from sangam.pipelines.local.outputs import Output
from sangam.pipelines.local.retention.removal import remove
from sangam.pipelines.local.retention.rule import Decision
from sangam.pipelines.online.cleaning import remove_old_lineages
from sangam.schemas.contracts import deltas, segments
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import remove_folder
from tests.components.steps.pusher.test_directory import make_model, pushed
from tests.errors import tells

NOW = datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder elsewhere, with the files of a version, a delta and a segment."""
    folder = make_model(tmp_path / "elsewhere" / "precious")
    for name in ("manifest.json", deltas.DELTA_FILE, segments.SEGMENT_FILE):
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "serving"
    for number in ("20240306001", "20240307001"):
        (make_model(folder / number) / "manifest.json").write_text('{"files": {}}')
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(act: Callable[[], object], link: Path, precious: Path) -> None:
    """Expects an act to be refused because of a link, without any change behind it."""
    before = contents(precious)
    with pytest.raises(UserError) as error:
        act()
    assert tells(str(error.value), str(link), f"(got one to {precious})")
    assert contents(precious) == before


def test_a_newest_version_that_is_a_link_is_not_withdrawn(serving: Path, precious: Path) -> None:
    link = serving / "20240308001"
    link.symlink_to(precious)
    # The version to fall back to is without damage.
    (serving / "20240307001" / "manifest.json").unlink()
    (serving / "20240306001" / "manifest.json").unlink()
    (precious / "manifest.json").unlink()
    refused(lambda: withdraw(serving, because="x", now=NOW), link, precious)
    assert len(versions(serving)) == 3
    done = CliRunner().invoke(app, ["rollback", str(serving), "--because", "x"])
    assert isinstance(done.exception, UserError)


@pytest.mark.parametrize("place", ["variables/more", "variables/data"])
def test_a_version_with_a_link_in_it_is_not_withdrawn(serving: Path, precious: Path, place: str) -> None:
    for number in ("20240306001", "20240307001"):
        (serving / number / "manifest.json").unlink()
    (serving / "20240307001" / place).unlink(missing_ok=True)
    (serving / "20240307001" / place).symlink_to(precious)
    refused(lambda: withdraw(serving, because="x", now=NOW), serving / "20240307001" / place, precious)
    assert (serving / "20240307001" / MODEL_FILE).exists()
    assert not (serving / "withdrawn").exists()


@pytest.mark.parametrize("place", ["withdrawn", "withdrawn/20240307001"])
def test_nothing_is_withdrawn_to_behind_a_link(serving: Path, precious: Path, place: str) -> None:
    for number in ("20240306001", "20240307001"):
        (serving / number / "manifest.json").unlink()
    (serving / place).parent.mkdir(exist_ok=True)
    (serving / place).symlink_to(precious)
    refused(lambda: withdraw(serving, because="x", now=NOW), serving / place, precious)


def test_a_withdrawn_version_with_a_link_is_not_restored(serving: Path, precious: Path) -> None:
    link = make_model(serving / "withdrawn" / "20240308001") / "variables" / "more"
    link.symlink_to(precious)
    refused(lambda: restore(serving, "20240308001"), link, precious)


def test_a_link_in_the_place_of_a_withdrawn_version_does_not_stop_pushes(
    serving: Path, precious: Path, tmp_path: Path
) -> None:
    before = contents(precious)
    (serving / "withdrawn").mkdir()
    (serving / "20111130001").mkdir()
    (serving / "withdrawn" / "20111130001").symlink_to(precious)
    assert pushed(make_model(tmp_path / "model"), serving).version == "20111130002"
    assert contents(precious) == before


def test_a_push_removes_a_linked_leftover_alone(serving: Path, precious: Path, tmp_path: Path) -> None:
    before = contents(precious)
    link = serving / ".tmp-20240308001-0a1b2c3d"
    link.symlink_to(precious)
    pushed(make_model(tmp_path / "model"), serving)
    assert not link.is_symlink()
    assert contents(precious) == before


@pytest.mark.parametrize("place", ["runs", "runs/a", ".removed"])
def test_nothing_behind_a_link_is_cleaned(tmp_path: Path, precious: Path, place: str) -> None:
    root, before = tmp_path / "root", contents(precious)
    (precious / "a").mkdir()
    run = root / "runs" / "a"
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(precious)
    run.mkdir(parents=True, exist_ok=True)
    removed = remove(Root(str(root)), [Decision("run", run, False, "old")])
    [(_, reason)] = removed.failed
    assert tells(reason, str(root / place), f"(got one to {precious})")
    assert (precious / "a").is_dir()
    assert contents(precious) == before


def test_the_files_of_an_execution_behind_a_link_stay(tmp_path: Path, precious: Path) -> None:
    root = tmp_path / "root"
    output = Output(1, root / "artifacts" / "trainer" / "model" / "1", "trainer", "model", frozenset("a"))
    output.path.mkdir(parents=True)
    (precious / "driver_execution").mkdir()
    (precious / "executor_execution" / "1").mkdir(parents=True)
    (root / "artifacts" / "trainer" / ".system").symlink_to(precious)
    from sangam.pipelines.local.retention import removal

    removal._forget_execution(Root(str(root)), output)
    assert (precious / "driver_execution").is_dir()
    assert (precious / "executor_execution" / "1").is_dir()


@pytest.mark.parametrize("number", [1, 2])
def test_deltas_and_segments_behind_a_link_stay(tmp_path: Path, precious: Path, number: int) -> None:
    before, folder = contents(precious), tmp_path / "segments"
    folder.mkdir()
    segments.path_of(folder, number).symlink_to(precious)
    segments.remove(folder, number)
    segments.path_of(folder, number).symlink_to(precious)
    (precious / segments.SEGMENT_FILE).unlink()
    assert list(segments.begin(folder, number).iterdir()) == []
    segments.path_of(folder, number).rmdir()
    segments.path_of(folder, number).symlink_to(precious)
    landing.read_all(folder)
    assert list(folder.iterdir()) == []
    before.pop(segments.SEGMENT_FILE)
    deltas.path_of(tmp_path, "20240307001", number).parent.mkdir(parents=True)
    deltas.path_of(tmp_path, "20240307001", number).symlink_to(precious)
    assert deltas.remove_included(tmp_path, "20240307001", [number, number]) == [number]
    assert contents(precious) == before


def test_nothing_is_written_to_a_linked_lineage(tmp_path: Path, precious: Path) -> None:
    link = deltas.lineage_folder(tmp_path, "20240307001")
    link.parent.mkdir()
    link.symlink_to(precious)
    hold = deltas.Hold(number=1, because="x", by="y", at=NOW)
    for act in (
        lambda: deltas.begin(tmp_path, "20240307001", 1),
        lambda: deltas.write_hold(tmp_path, "20240307001", hold),
        lambda: deltas.release(tmp_path, "20240307001"),
        lambda: deltas.remove_included(tmp_path, "20240307001", [1, 1]),
    ):
        refused(act, link, precious)


@pytest.mark.slow
def test_linked_lineages_are_removed_as_links(tmp_path: Path, precious: Path) -> None:
    before, training = contents(precious), tmp_path / "training"
    for each in ("20240305001", "20240306001"):
        for link in (training / each, deltas.lineage_folder(tmp_path, each)):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(precious)
    assert remove_old_lineages(training, tmp_path, "20240307001") == ["20240305001"]
    assert sorted(path.name for path in training.iterdir()) == ["20240306001"]
    assert contents(precious) == before


def test_a_folder_is_removed_with_the_file_that_makes_it_complete_first(tmp_path: Path, precious: Path) -> None:
    removed = precious.parent
    remove_folder(removed, first="none")
    assert not removed.exists()
    remove_folder(removed)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    remove_folder(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.slow
def test_a_model_is_never_exported_through_a_link(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module import export
    from sangam.trainer_module.serving import writing

    before, link = contents(precious), tmp_path / "model"
    job: Any = SimpleNamespace(
        model_dir=str(link), ranker=SimpleNamespace(export=SimpleNamespace(rows="float32", form="stock"))
    )

    def stop(*_: Any) -> Any:
        raise RuntimeError("as far as the place of the model")

    monkeypatch.setattr(writing, "served_ranker", stop)
    monkeypatch.setattr(export, "_checked", stop)
    for act in (lambda: export.write(job), lambda: export.check(job, 0.0)):
        link.symlink_to(precious)
        with pytest.raises(RuntimeError):
            act()
        assert not link.is_symlink()
    assert contents(precious) == before


@pytest.mark.slow
def test_an_attempt_at_ingestion_is_removed_without_what_its_links_lead_to(tmp_path: Path, precious: Path) -> None:
    from sangam.components.steps.example_gen.abandoned import remove_attempt

    before, attempt = contents(precious), tmp_path / "attempt"
    attempt.mkdir()
    (attempt / "inside").symlink_to(precious)
    remove_attempt(str(attempt))
    assert not attempt.exists()
    attempt.symlink_to(precious)
    remove_attempt(str(attempt))
    assert not attempt.is_symlink()
    assert contents(precious) == before
