"""How things are removed: each in one step, and only while nobody else uses it."""

from dataclasses import replace
from pathlib import Path

import pytest

from sangam.components.record.lock import locked
from sangam.pipelines.local.outputs import Output
from sangam.pipelines.local.retention.removal import remove, size_of
from sangam.pipelines.local.retention.rule import Decision, Kind
from sangam.schemas.contracts.root import Root


def going(kind: Kind, path: Path) -> Decision:
    path.mkdir(parents=True)
    (path / "file").write_text("four")
    return Decision(kind, path, False, "old")


def version(folder: Path, name: str) -> Decision:
    decision = going("version", folder / name)
    for file in ("saved_model.pb", "manifest.json"):
        (decision.path / file).write_text("{}")
    return decision


def test_what_goes_is_gone_and_what_stays_is_there(tmp_path: Path) -> None:
    gone, stays = going("run", tmp_path / "runs" / "a"), Decision("run", tmp_path / "runs" / "b", True, "new")
    stays.path.mkdir()
    assert size_of(gone.path) == 4
    assert remove(Root(str(tmp_path)), [gone, stays]).gone == (gone,)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["b"]
    # Nor is anything left of it elsewhere, also of a removal that was killed.
    assert not (tmp_path / ".removed").exists()


def test_a_search_that_has_gone_on_meanwhile_keeps_its_trials(tmp_path: Path) -> None:
    trials = going("trials", tmp_path / "tune" / "a" / "trials")
    with locked(trials.path.parent):
        removed = remove(Root(str(tmp_path)), [trials])
    assert trials.path.is_dir()
    assert [decision for decision, _ in removed.failed] == [trials]
    assert remove(Root(str(tmp_path)), [trials]).gone == (trials,)


def test_versions_that_a_rollback_has_just_made_the_newest_stay(tmp_path: Path) -> None:
    decisions = [version(tmp_path / "serving", name) for name in ("20240301001", "20240302001", "20240303001")]
    removed = remove(Root(str(tmp_path)), decisions)
    assert removed.gone == (decisions[0],)
    assert sorted(path.name for path in (tmp_path / "serving").glob("2*")) == ["20240302001", "20240303001"]
    assert {decision.path.name for decision, _ in removed.failed} == {"20240302001", "20240303001"}


def test_a_folder_that_cannot_be_moved_is_told_and_the_rest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Output(
        1, tmp_path / "artifacts" / "example_gen" / "examples" / "1", "example_gen", "examples", frozenset("a")
    )
    first = replace(going("output", made.path), output=made)
    days, second = going("examples", tmp_path / "examples" / "a" / "day"), going("run", tmp_path / "runs" / "b")
    rename = Path.rename

    def refusing(path: Path, target: Path) -> Path:
        if path == first.path:
            raise PermissionError(13, "Permission denied")  # As for a mount point: a test may run as root.
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refusing)
    removed = remove(Root(str(tmp_path)), [days, first, second])
    # A list of examples that is still there must name nothing that is gone.
    assert (removed.gone, [decision for decision, _ in removed.failed]) == ((second,), [first, days])
