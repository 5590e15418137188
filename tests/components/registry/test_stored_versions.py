"""Versions on an S3 server: pushed, withdrawn and restored."""

import datetime
import io
from pathlib import Path

import pytest

from sangam.components import object_stores
from sangam.components.registry import stored_versions
from sangam.components.registry.record import BlessedModel, mark_places
from sangam.components.registry.seal import seal
from sangam.components.registry.served import Served, served
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from tests.components.registry.sample_blessings import blessing
from tests.errors import place_and_value
from tests.object_stores import Bucket

pytestmark = pytest.mark.slow

NOW = datetime.datetime(2024, 3, 9, tzinfo=datetime.UTC)
NAMES = ("20240307001", "20240308001", "20240309001")


@pytest.fixture
def folder(bucket: Bucket, tmp_path: Path) -> str:
    for name in NAMES:
        model = tmp_path / name
        (model / "variables").mkdir(parents=True)
        (model / "variables" / "data").write_text(name)
        (model / "saved_model.pb").write_text("graph")
        seal(str(model))
    # An upload that has not ended, and one without a manifest.
    bucket.put("serving/tiny/20240310001/variables/data", b"w")
    bucket.put("serving/tiny/20240311001/saved_model.pb", b"w")
    return bucket.upload(tmp_path, "serving/tiny")


def test_the_complete_versions_are_listed(folder: str) -> None:
    assert stored_versions.versions(folder) == list(NAMES)
    assert stored_versions.withdrawn(folder) == {}


def test_a_withdrawn_version_leaves_no_object_at_its_place_and_comes_back_whole(folder: str, bucket: Bucket) -> None:
    before = bucket.keys("serving/tiny/20240309001")
    assert stored_versions.withdraw(folder, because="worse", now=NOW) == ["20240309001"]
    # Not even one that stands for the folder: servers would try to load it.
    assert bucket.keys("serving/tiny/20240309001") == []
    assert stored_versions.versions(folder) == list(NAMES[:2])
    [record] = stored_versions.withdrawn(folder).values()
    assert (record.version, record.because, record.withdrawn_at) == ("20240309001", "worse", NOW)
    stored_versions.restore(folder, "20240309001")
    assert stored_versions.versions(folder) == list(NAMES)
    assert bucket.keys("serving/tiny/20240309001") == before
    assert bucket.get("serving/tiny/20240309001/variables/data") == b"20240309001"
    assert stored_versions.withdrawn_names(folder) == []


def test_every_newer_version_is_withdrawn(folder: str) -> None:
    assert stored_versions.withdraw(folder, because="worse", now=NOW, to=NAMES[0]) == list(NAMES[1:])
    assert stored_versions.versions(folder) == [NAMES[0]]
    with pytest.raises(UserError, match=place_and_value(folder, NAMES[0])):
        stored_versions.withdraw(folder, because="worse", now=NOW)


def test_all_versions_are_withdrawn_for_none_to_be_served(folder: str) -> None:
    assert stored_versions.withdraw(folder, because="worse", now=NOW, to="none") == list(NAMES)
    assert stored_versions.versions(folder) == []
    with pytest.raises(UserError, match=place_and_value(folder, "(got none)")):
        stored_versions.withdraw(folder, because="worse", now=NOW, to="none")


def test_a_withdrawn_version_is_no_baseline(folder: str) -> None:
    stored_versions.withdraw(folder, because="worse", now=NOW)
    models = [
        BlessedModel(
            model_uri=name, ranker_digest="d", blessed_at=NOW, metrics={}, checkpoint_uri="", days=[],
            transform_graph_uri="", inputs_digest="", model_sha256="", checkpoint_sha256="", transform_graph_sha256="",
            pushed=f"{folder}/{name}",
        )
        for name in NAMES
    ]  # fmt: skip
    assert [each.is_withdrawn for each in mark_places(models, lambda _: ())] == [False, False, True]


def test_a_move_that_was_killed_after_its_copy_is_completed(folder: str, bucket: Bucket) -> None:
    for key in bucket.keys("serving/tiny/20240309001"):
        bucket.put(key.replace("tiny/", "tiny/withdrawn/"), bucket.get(key))
    object_stores.delete(f"{folder}/20240309001/saved_model.pb")
    stored_versions.withdraw(folder, because="worse", now=NOW)
    assert bucket.keys("serving/tiny/20240309001") == []
    assert list(stored_versions.withdrawn(folder)) == list(NAMES[1:])


@pytest.mark.parametrize(
    ("options", "place"),
    [({"because": " "}, "--because"), ({"to": "1"}, "--to"), ({"to": NAMES[-1]}, "--to")],
)
def test_a_wrong_option_changes_nothing(folder: str, options: dict[str, str], place: str) -> None:
    with pytest.raises(UserError, match=place_and_value(place, options.get("to", "' '"))):
        stored_versions.withdraw(folder, **{"because": "worse", **options}, now=NOW)  # type: ignore[arg-type]
    assert stored_versions.versions(folder) == list(NAMES)


def test_a_version_with_missing_objects_is_nothing_to_fall_back_to(folder: str) -> None:
    object_stores.delete(f"{folder}/{NAMES[1]}/variables/data")
    with pytest.raises(UserError, match=place_and_value(folder, "variables/data")):
        stored_versions.withdraw(folder, because="worse", now=NOW)


def test_a_large_object_is_copied_through_this_machine(
    folder: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_stores, "_MOST_COPIED_BYTES", 10)
    object_stores.write(f"{bucket.uri}/large", io.BytesIO(b"0123456789a"))
    large = object_stores.found(f"{bucket.uri}/large")
    assert large
    object_stores.copy(large, f"{bucket.uri}/copied")
    assert bucket.get("copied") == b"0123456789a"


def test_what_is_served_is_the_newest_version_at_the_address_of_the_last_push(folder: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    entry = Path(Root(str(root)).blessed("tiny"), "00000001.json")
    entry.parent.mkdir(parents=True)
    entry.write_text(blessing("/model", pushed=f"{folder}/{NAMES[0]}").model_dump_json())
    assert served(root, "tiny") == Served(folder, NAMES[-1])
    assert served(root, "other") is None
    stored_versions.withdraw(folder, because="worse", now=NOW)
    assert served(root, "tiny") == Served(folder, NAMES[1])
