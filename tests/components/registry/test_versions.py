"""The folder of versions: which may be served, and how one is withdrawn and put back."""

import datetime
import fcntl
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry.versions import damage, locked, numbers_taken, restore, versions, withdraw, withdrawn
from sangam.pipelines.cli import main
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host import lock
from sangam.schemas.host.lock import LockHeld
from tests.errors import place_and_value, tells
from tests.fakes.killed_moves import killed_at_move

NOW = datetime.datetime(2024, 3, 8, 9, 30, tzinfo=datetime.UTC)


def _put(folder: Path, number: str, *, with_manifest: bool = True) -> Path:
    version = folder / number
    (version / "variables").mkdir(parents=True)
    contents = {"saved_model.pb": b"graph", "variables/data": number.encode()}
    for name, content in contents.items():
        (version / name).write_bytes(content)
    if with_manifest:
        files = {name: {"sha256": hashlib.sha256(content).hexdigest()} for name, content in contents.items()}
        (version / "manifest.json").write_text(json.dumps({"files": files}))
    return version


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in ("20240305001", "20240306001", "20240307001"):
        _put(tmp_path, number)
    return tmp_path


def test_versions_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    for number in ("9", "10", "2"):
        _put(tmp_path, number, with_manifest=False)
    assert versions(tmp_path) == ["2", "9", "10"]


def test_what_is_half_written_is_no_version(folder: Path) -> None:
    _put(folder, "20240308001", with_manifest=False)
    _put(folder, ".tmp-20240309001-0a1b2c3d")
    (folder / "20240310001").mkdir()
    (folder / "20240311001").write_text("a file")
    assert versions(folder) == ["20240305001", "20240306001", "20240307001"]
    assert numbers_taken(folder)[-2:] == ["20240308001", "20240310001"]
    assert versions(folder / "none") == []


def test_the_newest_is_withdrawn_with_its_reason(folder: Path) -> None:
    assert withdraw(folder, because="likes fell", now=NOW) == ["20240307001"]
    assert versions(folder) == ["20240305001", "20240306001"]
    [(version, record)] = withdrawn(folder).items()
    assert (version, record.because, record.withdrawn_at) == ("20240307001", "likes fell", NOW)
    assert (folder / "withdrawn" / "20240307001" / "saved_model.pb").exists()
    assert numbers_taken(folder) == ["20240305001", "20240306001", "20240307001"]


def test_all_newer_ones_are_withdrawn_the_newest_last(folder: Path) -> None:
    assert withdraw(folder, because="x", now=NOW, to="20240305001") == ["20240306001", "20240307001"]
    assert versions(folder) == ["20240305001"]


def test_a_version_is_put_back(folder: Path) -> None:
    withdraw(folder, because="x", now=NOW)
    restore(folder, "20240307001")
    assert versions(folder)[-1] == "20240307001"
    assert withdrawn(folder) == {}
    assert list((folder / "withdrawn").iterdir()) == []


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Returns what acts until it is killed in the n-th move of a file, from 0."""

    def act_until(number: int, act: Callable[[], object]) -> None:
        with killed_at_move(number):
            act()

    return act_until


@pytest.mark.parametrize("number", [1, 2])
def test_a_withdrawal_that_was_killed_half_way_is_one(folder: Path, killed_at: Any, number: int) -> None:
    killed_at(number, lambda: withdraw(folder, because="likes fell", now=NOW))
    assert versions(folder) == ["20240305001", "20240306001"]
    restore(folder, "20240307001")
    assert damage(folder / "20240307001") is None
    assert list((folder / "withdrawn").iterdir()) == []


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_restoration_that_was_killed_half_way_can_be_done_again(folder: Path, killed_at: Any, number: int) -> None:
    withdraw(folder, because="likes fell", now=NOW)
    killed_at(number, lambda: restore(folder, "20240307001"))
    assert versions(folder) == ["20240305001", "20240306001"]
    restore(folder, "20240307001")
    assert damage(folder / "20240307001") is None


def test_who_waits_for_another_push_or_rollback_is_told_of_it_in_the_end(folder: Path) -> None:
    with locked(folder):
        with pytest.raises(LockHeld) as error, locked(folder, wait_s=0.2):
            pass
        held = f"another process changes its versions for 0.2 s (got {folder}, held by process {os.getpid()} on"
        assert tells(str(error.value), str(folder), held)


def test_a_rollback_that_another_holds_up_ends_with_its_exit_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sangam", "rollback", str(folder), "--because", "likes fell", "--json"])
    monkeypatch.setattr(lock.time, "monotonic", itertools.count(step=30.0).__next__)
    with locked(folder, wait_s=0), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.ROOT_IN_USE
    assert "for 60 s" in json.loads(capsys.readouterr().err)["error"]


def test_a_reader_of_the_folder_holds_up_no_rollback(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        assert withdraw(folder, because="likes fell", now=NOW) == ["20240307001"]
    finally:
        os.close(fd)


def test_a_lost_reason_does_not_bring_a_version_back(folder: Path) -> None:
    withdraw(folder, because="x", now=NOW)
    (folder / "withdrawn" / "20240307001.json").unlink()
    assert withdrawn(folder)["20240307001"].because == ""


@pytest.mark.parametrize(
    ("arguments", "place", "value"),
    [
        ({"because": " "}, "--because", "reason"),
        ({"to": "20240307001"}, "--to", "newest ... (got 20240307001)"),
        ({"to": "20240101001"}, "--to", "no such version"),
    ],
)
def test_wrong_arguments_withdraw_nothing(folder: Path, arguments: dict[str, str], place: str, value: str) -> None:
    with pytest.raises(UserError) as told:
        withdraw(folder, **{"because": "x", "now": NOW, **arguments})  # type: ignore[arg-type]
    assert tells(str(told.value), place, value)
    assert len(versions(folder)) == 3
    assert withdrawn(folder) == {}


def test_the_last_version_is_not_withdrawn(tmp_path: Path) -> None:
    _put(tmp_path, "20240307001")
    with pytest.raises(UserError, match=place_and_value(str(tmp_path), "older ... (got 20240307001)")):
        withdraw(tmp_path, because="x", now=NOW)


def test_all_versions_are_withdrawn_only_if_said_and_can_be_put_back(folder: Path) -> None:
    (folder / "20240306001" / "variables" / "data").write_bytes(b"damaged")
    assert withdraw(folder, because="x", now=NOW, to="none") == ["20240305001", "20240306001", "20240307001"]
    assert versions(folder) == []
    assert numbers_taken(folder)[-1] == "20240307001"
    with pytest.raises(UserError, match=place_and_value(str(folder), "none")):
        withdraw(folder, because="x", now=NOW, to="none")
    restore(folder, "20240305001")
    assert versions(folder) == ["20240305001"]


def test_nothing_falls_back_to_a_damaged_version(folder: Path) -> None:
    (folder / "20240306001" / "variables" / "data").write_bytes(b"other")
    with pytest.raises(UserError, match=place_and_value("...", "20240306001 ... (got variables/data: sha256")):
        withdraw(folder, because="x", now=NOW)
    assert versions(folder)[-1] == "20240307001"


def test_what_is_not_withdrawn_is_not_put_back(folder: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("--restore", "not withdrawn ... (got 20240307001)")):
        restore(folder, "20240307001")
    withdraw(folder, because="x", now=NOW)
    _put(folder, "20240307001")
    with pytest.raises(UserError, match=r"--restore: .*20240307001 exists"):
        restore(folder, "20240307001")


def test_a_version_to_fall_back_to_may_be_asked_for_only_while_it_is_there(folder: Path) -> None:
    withdraw(folder, because="x", now=NOW)
    with pytest.raises(UserError, match="--restore 20240307001 puts it back"):
        withdraw(folder, because="x", now=NOW, to="20240307001")


def test_damage_is_told_by_file(folder: Path) -> None:
    version = folder / "20240307001"
    assert damage(version) is None
    (version / "variables" / "data").unlink()
    assert tells(str(damage(version)), "variables/data", "manifest.json ... no such file")
    (version / "manifest.json").write_text("{}")
    assert tells(str(damage(version)), "manifest.json", "(KeyError")
    (version / "manifest.json").unlink()
    assert damage(version) is None
