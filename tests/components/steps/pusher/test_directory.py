"""Pushing to a local folder: whole or not at all, never over another version."""

import datetime
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sangam.components.registry import versions
from sangam.components.request_log.settings import settings_of, shadow_of
from sangam.components.steps.pusher.directory import Pushed, push, target_folder
from sangam.components.steps.pusher.manifest import CARD_FILE, Provenance, list_files
from sangam.schemas.errors import UserError
from sangam.schemas.host.lock import LOCK_FILE
from sangam.schemas.spec.serving import InShadow, RequestLog
from tests.errors import place_and_value, tells

NOW = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
PROVENANCE = Provenance(
    name="tiny",
    spec_digest="s1",
    git_commit="g1",
    days={"train": ["2011-11-29"], "eval": ["2011-11-30"]},
    missing_days=[],
    metrics={"like": {"auc": 0.75, "calibration": None}},
    baseline=None,
    notes=["no blessed model yet"],
)


def names_in(folder: Path) -> list[str]:
    """Returns what is in a folder of versions, besides its lock, sorted."""
    return sorted(name for name in os.listdir(folder) if name != LOCK_FILE)


def make_model(folder: Path, weights: str = "w") -> Path:
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text("graph")
    (folder / "variables" / "data").write_text(weights)
    return folder


def pushed(model: Path, target: Path, log: RequestLog | None = None, shadow: InShadow | None = None) -> Pushed:
    return push(
        model=model,
        target=target,
        day="20111130",
        provenance=PROVENANCE.model_copy(update={"request_log": log, "shadow": shadow}),
        card=lambda version: f"# tiny, version {version}\n",
        now=NOW,
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "serving"


def test_version_holds_the_model_a_card_and_a_manifest_of_both(model: Path, target: Path) -> None:
    version = pushed(model, target)
    folder = target / "20111130001"
    assert version.path == str(folder)
    assert (folder / CARD_FILE).read_text() == "# tiny, version 20111130001\n"
    files = list_files(folder)
    assert {name: entry for name, entry in files.items() if name != CARD_FILE} == list_files(model)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest == json.loads(PROVENANCE.model_dump_json()) | {
        "format": 1,
        "version": "20111130001",
        "created": "2024-01-02T03:04:05Z",
        "files": {name: entry.model_dump() for name, entry in files.items()},
    }
    assert versions.damage(folder) is None
    (folder / CARD_FILE).write_text("# another\n")
    assert str(versions.damage(folder)).startswith(f"{CARD_FILE}: sha256 is ")


@pytest.mark.parametrize(("mask", "folder", "file"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644)])
def test_a_version_may_be_read_by_whom_the_umask_lets(
    model: Path, target: Path, mask: int, folder: int, file: int
) -> None:
    before = os.umask(mask)
    try:
        version = Path(pushed(model, target).path)
    finally:
        os.umask(before)
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (target, version, *version.rglob("*"))}
    assert modes == {(True, folder), (False, file)}


def test_the_same_model_again_is_the_same_version(model: Path, target: Path) -> None:
    first = pushed(model, target)
    assert pushed(model, target) == first
    assert names_in(target) == ["20111130001"]


def test_another_log_of_its_requests_is_another_version(model: Path, target: Path) -> None:
    log = RequestLog(share=0.1, redact={"user": "hash"})
    assert [pushed(model, target, each).version for each in (None, log, log)] == [
        "20111130001",
        "20111130002",
        "20111130002",
    ]
    assert settings_of(target / "20111130001") is None
    assert settings_of(target / "20111130002") == log


def test_another_share_in_the_shadow_is_another_version(model: Path, target: Path) -> None:
    log = RequestLog(share=0.1)
    numbers = [pushed(model, target, log, InShadow(share=share)).version for share in (0.1, 0.05, 0.05)]
    assert numbers == ["20111130001", "20111130002", "20111130002"]
    assert shadow_of(target / "20111130002") == InShadow(share=0.05)


@pytest.mark.parametrize(("change", "got"), [({}, "none"), ({"format": 2}, "2")])
def test_a_manifest_of_another_format_is_refused(model: Path, target: Path, change: dict[str, int], got: str) -> None:
    first = pushed(model, target)
    file = Path(first.path, "manifest.json")
    document = json.loads(file.read_text())
    del document["format"]
    file.write_text(json.dumps(document | change))
    with pytest.raises(UserError, match=place_and_value(str(file), f"(got {got})")):
        pushed(model, target)
    assert [path.name for path in target.iterdir() if path.is_dir() and path.name.isdigit()] == ["20111130001"]


def test_another_model_gets_the_next_version_and_leaves_the_first_alone(
    model: Path, target: Path, tmp_path: Path
) -> None:
    first = pushed(model, target)
    before = {path: path.stat().st_mtime_ns for path in Path(first.path).rglob("*")}
    assert pushed(make_model(tmp_path / "other", "v"), target).version == "20111130002"
    assert {path: path.stat().st_mtime_ns for path in Path(first.path).rglob("*")} == before


def test_versions_share_unchanged_tables_alone(target: Path, tmp_path: Path) -> None:
    folders = []
    for number, last in enumerate((b"1", b"1", b"2")):
        model = make_model(tmp_path / str(number), str(min(number, 1)))
        with (model / "variables" / "table").open("wb") as file:
            file.seek(2**24 - 1)
            file.write(last)
        folders.append(Path(pushed(model, target).path))
    first, second, third = folders
    assert (first / "variables/table").samefile(second / "variables/table")
    assert not (second / "variables/table").samefile(third / "variables/table")
    assert not any((first / name).samefile(second / name) for name in ("saved_model.pb", "variables/data"))
    assert [versions.damage(folder) for folder in folders] == [None] * 3
    # A damaged one is not shared.
    with (third / "variables/table").open("r+b") as file:
        file.write(b"x")
    (tmp_path / "2/variables/data").write_text("u")
    fourth = Path(pushed(tmp_path / "2", target).path)
    assert not (fourth / "variables/table").samefile(third / "variables/table")
    assert versions.damage(fourth) is None


def test_a_model_that_another_took_the_place_of_is_pushed_again_to_be_served(
    model: Path, target: Path, tmp_path: Path
) -> None:
    other = make_model(tmp_path / "other", "v")
    assert [pushed(given, target).version for given in (model, other, model, model, other)] == [
        f"2011113000{number}" for number in (1, 2, 3, 3, 4)
    ]


def test_a_model_of_a_day_in_the_past_is_not_pushed_again_as_a_later_one_is_served(
    model: Path, target: Path, tmp_path: Path
) -> None:
    pushed(model, target)
    pushed(make_model(tmp_path / "other", "v"), target)
    make_model(target / "20111201001")
    (target / "20111201001" / "manifest.json").write_text("{}")
    assert pushed(model, target).version == "20111130001"


def test_a_taken_number_is_never_used_even_if_its_folder_is_empty(model: Path, target: Path) -> None:
    (target / "20111130001").mkdir(parents=True)
    assert pushed(model, target).version == "20111130002"
    assert os.listdir(target / "20111130001") == []


def withdraw_newest(target: Path, because: str) -> None:
    [version] = versions.withdraw(target, because=because, now=NOW)
    assert (target / "withdrawn" / version / "saved_model.pb").exists()


def test_the_number_of_a_withdrawn_version_is_never_given_again(model: Path, target: Path, tmp_path: Path) -> None:
    pushed(model, target)
    pushed(make_model(tmp_path / "second", "2"), target)
    withdraw_newest(target, "likes fell by a third")
    assert pushed(make_model(tmp_path / "third", "3"), target).version == "20111130003"
    withdraw_newest(target, "so did these")
    # Somebody made room; the records stay.
    shutil.rmtree(target / "withdrawn" / "20111130003")
    assert pushed(make_model(tmp_path / "fourth", "4"), target).version == "20111130004"


def test_withdrawn_files_are_not_pushed_again_and_the_way_out_works(model: Path, target: Path, tmp_path: Path) -> None:
    pushed(model, target)
    bad = make_model(tmp_path / "bad", "bad")
    pushed(bad, target)
    withdraw_newest(target, "likes fell by a third")
    with pytest.raises(UserError) as caught:
        pushed(bad, target)
    assert tells(
        str(caught.value),
        "push",
        f"20111130002 ... likes fell by a third) ... sangam rollback {target} --restore 20111130002",
    )
    assert names_in(target) == ["20111130001", "withdrawn"]
    versions.restore(target, "20111130002")
    assert pushed(bad, target).version == "20111130002"


def test_a_push_killed_before_it_was_moved_leaves_no_version_and_is_cleared_away(model: Path, target: Path) -> None:
    make_model(target / ".tmp-20111130001-0a1b2c3d")
    (target / ".tmp-of-somebody-else").mkdir()
    assert [name for name in os.listdir(target) if name.isdigit()] == []
    assert pushed(model, target).version == "20111130001"
    assert names_in(target) == [".tmp-of-somebody-else", "20111130001"]


def _dying_at(rename: int) -> Callable[[Path, Path], None]:
    """Returns an os.rename in whose n-th call, from 0, the process ends."""
    left, real = [rename], os.rename

    def dying(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        real(source, target)

    return dying


@pytest.mark.parametrize("rename", range(4))
def test_a_push_killed_while_it_is_moved_leaves_no_version_and_is_cleared_away(
    model: Path, target: Path, monkeypatch: pytest.MonkeyPatch, rename: int
) -> None:
    """A model, its card and its manifest are four files."""
    (target / "20111130001").mkdir(parents=True)
    child = os.fork()
    if child == 0:
        try:
            monkeypatch.setattr(os, "rename", _dying_at(rename))
            pushed(model, target)
        finally:
            # After an error too: the child must not go on as a second pytest.
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert (target / "20111130002").exists()
    assert versions.versions(target) == []
    assert pushed(model, target).version == "20111130002"
    assert names_in(target) == ["20111130001", "20111130002"]
    assert versions.damage(target / "20111130002") is None


def test_a_failed_copy_leaves_nothing(model: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(source: Path, destination: Path) -> None:
        destination.write_bytes(source.read_bytes()[:-1])

    monkeypatch.setattr("shutil.copyfile", torn)
    with pytest.raises(RuntimeError, match=r"saved_model\.pb, variables/data"):
        pushed(model, target)
    assert names_in(target) == []


def test_pushes_at_once_get_versions_of_their_own(target: Path, tmp_path: Path) -> None:
    models = [make_model(tmp_path / f"model{index}", str(index)) for index in range(4)]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=pushed, args=(model, target)) for model in models]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert names_in(target) == [f"2011113000{number}" for number in range(1, 5)]
    written = {(target / f"2011113000{number}" / "variables" / "data").read_text() for number in range(1, 5)}
    assert written == {"0", "1", "2", "3"}


def test_a_folder_without_a_saved_model_is_refused(target: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=place_and_value(str(tmp_path / "empty"), "(got no saved_model.pb)")):
        pushed(tmp_path / "empty", target)


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc", ".", "link/out"])
def test_a_target_outside_the_pipeline_root_is_refused(path: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match=place_and_value("push.path", f"(got {path!r}")):
        target_folder(str(root), path)


def test_a_target_below_the_pipeline_root_is_taken(tmp_path: Path) -> None:
    assert target_folder(str(tmp_path), "serving/tiny") == tmp_path / "serving" / "tiny"
