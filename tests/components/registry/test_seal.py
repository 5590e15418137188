"""What a later step or run loads as a program is what was written, to the byte."""

import json
from pathlib import Path

import pytest

from sangam.components.registry import seal
from sangam.components.registry.versions import damage
from sangam.schemas.errors import UserError
from tests.errors import place_and_value, tells


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "graph" / "variables").mkdir(parents=True)
    (tmp_path / "graph" / "saved_model.pb").write_bytes(b"program")
    (tmp_path / "graph" / "variables" / "data").write_bytes(b"numbers")
    return tmp_path / "graph"


def refusal(folder: Path, sealed: str) -> str:
    with pytest.raises(UserError) as caught:
        seal.refuse_changed(str(folder), sealed, "restore it")
    text = str(caught.value)
    assert tells(text, str(folder), "(got ")
    assert text.endswith("); restore it")
    return text.removeprefix(f"{folder}: is not what was written there (got ").removesuffix("); restore it")


def test_a_folder_is_what_was_sealed_and_reads_as_a_version_does(folder: Path) -> None:
    sealed = seal.seal(str(folder))
    seal.refuse_changed(str(folder), sealed)
    assert seal.seal(str(folder)) == sealed
    assert sealed == seal.sha256_of(folder / "manifest.json")
    assert sorted(json.loads((folder / "manifest.json").read_text())["files"]) == ["saved_model.pb", "variables/data"]
    assert damage(folder) is None


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/data"])
def test_one_changed_byte_is_refused_by_the_files_name(folder: Path, name: str) -> None:
    sealed = seal.seal(str(folder))
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + b"?")
    assert refusal(folder, sealed).startswith(f"{name}: sha256 is ")


def test_a_file_that_was_added_or_removed_is_refused(folder: Path) -> None:
    sealed = seal.seal(str(folder))
    (folder / "more").write_bytes(b"")
    assert tells(refusal(folder, sealed), "more", "not listed in manifest.json")
    (folder / "more").unlink()
    (folder / "variables" / "data").unlink()
    assert tells(refusal(folder, sealed), "variables/data", "manifest.json ... no such file")


def test_a_changed_file_with_a_manifest_to_match_is_refused(folder: Path) -> None:
    sealed = seal.seal(str(folder))
    (folder / "saved_model.pb").write_bytes(b"other program")
    other = seal.seal(str(folder))
    assert tells(refusal(folder, sealed), "manifest.json", f"{other} ... {sealed}")


def test_a_link_in_the_place_of_a_file_is_refused(folder: Path) -> None:
    sealed = seal.seal(str(folder))
    (folder / "saved_model.pb").rename(folder.parent / "elsewhere")
    (folder / "saved_model.pb").symlink_to(folder.parent / "elsewhere")
    assert refusal(folder, sealed).startswith("saved_model.pb: is a link")
    with pytest.raises(UserError, match=r"saved_model\.pb: is a link"):
        seal.seal(str(folder))


def test_a_folder_that_nobody_has_sealed_is_refused(folder: Path) -> None:
    sealed = seal.seal(str(folder))
    assert refusal(folder, "") == "an artifact without sha256"
    (folder / "manifest.json").unlink()
    assert tells(refusal(folder, sealed), "manifest.json", "(No such file or directory)")


def test_an_address_is_no_folder() -> None:
    with pytest.raises(UserError, match="s3://bucket/graph: "):
        seal.seal("s3://bucket/graph")


@pytest.mark.slow
def test_a_base_that_is_not_the_checkpoint_that_was_blessed_is_refused(tmp_path: Path) -> None:
    from sangam.components.registry.checkpoint import refuse_changed_checkpoint, sha256_of_manifest

    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "manifest.json").write_text("{}")
    blessed = sha256_of_manifest(str(tmp_path))
    refuse_changed_checkpoint(str(tmp_path), blessed)
    (tmp_path / "checkpoint" / "manifest.json").write_text("{ }")
    with pytest.raises(UserError, match=place_and_value(str(tmp_path / "checkpoint"), f"(got sha256 ... {blessed})")):
        refuse_changed_checkpoint(str(tmp_path), blessed)
