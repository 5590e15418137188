"""Folders of models that somebody has tampered with: nothing outside them is read, copied or loaded."""

import datetime
import hashlib
import json
import os
from pathlib import Path

import pytest

from sangam.components.registry.versions import damage, is_verified, versions, withdraw
from sangam.components.steps.pusher.manifest import list_files, versions_of
from sangam.schemas.errors import UserError
from tests.components.steps.pusher.test_directory import make_model, pushed
from tests.errors import place_and_value, tells

CONTENTS = {"saved_model.pb": b"graph", "variables/data": b"weights"}


def _describe(version: Path, names: dict[str, bytes]) -> None:
    files = {name: {"sha256": hashlib.sha256(content).hexdigest()} for name, content in names.items()}
    (version / "manifest.json").write_text(json.dumps({"files": files}))


@pytest.fixture
def version(tmp_path: Path) -> Path:
    folder = tmp_path / "serving" / "20240307001"
    (folder / "variables").mkdir(parents=True)
    for name, content in CONTENTS.items():
        (folder / name).write_bytes(content)
    _describe(folder, CONTENTS)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"secret")
    return path


def test_what_the_manifest_lists_is_sound(version: Path) -> None:
    assert damage(version) is None
    assert is_verified(version)


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "variables/../../../secret", "variables", "", "."])
def test_a_manifest_cannot_name_a_file_outside_its_version(version: Path, outside: Path, name: str) -> None:
    _describe(version, CONTENTS | {name: b"secret"})
    assert tells(str(damage(version)), name, "manifest.json")


@pytest.mark.parametrize("name", ["assets.extra/ranker.json", "variables/variables.index", ".hidden", "x/y/z"])
def test_a_file_that_the_manifest_does_not_list_is_refused(version: Path, name: str) -> None:
    (version / name).parent.mkdir(parents=True, exist_ok=True)
    (version / name).write_text("{}")
    assert tells(str(damage(version)), name, "not listed in manifest.json")


@pytest.mark.parametrize("target", ["../../../secret", "data2"], ids=["outside", "inside"])
def test_a_linked_file_is_refused_even_with_the_right_checksum(version: Path, outside: Path, target: str) -> None:
    (version / "variables" / "data2").write_bytes(b"secret")
    (version / "variables" / "data").unlink()
    (version / "variables" / "data").symlink_to(target)
    _describe(version, {"saved_model.pb": b"graph", "variables/data": b"secret", "variables/data2": b"secret"})
    assert tells(str(damage(version)), "variables/data", f"(got one to {target})")


def test_a_linked_folder_is_refused_with_or_without_a_manifest(version: Path, tmp_path: Path) -> None:
    (version / "assets").symlink_to(tmp_path)
    assert tells(str(damage(version)), "assets", f"(got one to {tmp_path})")
    (version / "manifest.json").unlink()
    assert tells(str(damage(version)), "assets", f"(got one to {tmp_path})")
    assert not is_verified(version)


def test_a_linked_manifest_is_refused(version: Path, tmp_path: Path) -> None:
    (version / "manifest.json").rename(tmp_path / "manifest.json")
    (version / "manifest.json").symlink_to(tmp_path / "manifest.json")
    assert tells(str(damage(version)), "manifest.json", "(got one to ")


def test_a_linked_version_is_refused(version: Path, tmp_path: Path) -> None:
    version.rename(tmp_path / "elsewhere")
    version.symlink_to(tmp_path / "elsewhere")
    assert tells(str(damage(version)), "20240307001", "(got one to ")


def test_what_is_neither_file_nor_folder_is_refused_and_never_opened(version: Path) -> None:
    (version / "variables" / "data").unlink()
    os.mkfifo(version / "variables" / "data")  # Reading it would wait for ever.
    assert str(damage(version)).startswith("variables/data: is a special file (got p")


def test_nothing_falls_back_to_a_version_with_a_link(version: Path, tmp_path: Path) -> None:
    newer = version.parent / "20240308001"
    newer.mkdir()
    (newer / "saved_model.pb").write_bytes(b"graph")
    _describe(newer, {"saved_model.pb": b"graph"})
    (version / "assets").symlink_to(tmp_path)
    now = datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC)
    with pytest.raises(UserError, match=place_and_value("...", "20240307001 ... (got assets: ")):
        withdraw(version.parent, because="x", now=now)


@pytest.mark.parametrize("link", ["variables/data", "assets"])
def test_a_push_copies_nothing_that_a_link_leads_to(tmp_path: Path, outside: Path, link: str) -> None:
    model = make_model(tmp_path / "model")
    (model / link).unlink(missing_ok=True)
    (model / link).symlink_to(outside if link != "assets" else tmp_path)
    with pytest.raises(UserError, match=place_and_value(f"{model}: {link}", "(got one to")):
        list_files(model)
    with pytest.raises(UserError, match="is a link"):
        pushed(model, tmp_path / "serving")
    assert not (tmp_path / "serving").exists()


@pytest.mark.parametrize("name", ["²", "1\n", "-1", "1.0", "+1", " 1", "١٢٣", "1" * 19])
def test_only_plain_numbers_are_versions(tmp_path: Path, name: str) -> None:
    make_model(tmp_path / name)
    make_model(tmp_path / "7")
    assert versions(tmp_path) == ["7"]


@pytest.mark.parametrize("name", ["001\n", "00²", "١٢٣", "+01", "0001"])
def test_only_plain_numbers_are_versions_of_a_day(name: str) -> None:
    assert versions_of("20240307", [f"20240307{name}", "20240307001"]) == ["20240307001"]
