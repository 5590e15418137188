"""Where a model is found: a version, a folder of versions, a run, a root, an object store."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import sangam
from sangam.components.model.model import load
from sangam.components.model.places import place_of
from sangam.components.record.run import Pushed, RunRecord
from sangam.components.record.store import write_record
from sangam.components.registry.seal import seal
from sangam.schemas.errors import UserError
from tests.components.model.committed import FOLDER, LIKE, WITHIN, frame
from tests.errors import place_and_value
from tests.object_stores import Bucket

pytestmark = pytest.mark.slow


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """A root's folder of two versions, the newer one with a manifest as well."""
    folder = tmp_path / "root" / "serving" / "tiny"
    for number in ("20240301001", "20240302001"):
        shutil.copytree(FOLDER, folder / number)
        seal(str(folder / number))
    return folder


def _add_run(root: Path, run: str, pushed: Path | None, ranker: str = "tiny") -> Path:
    folder = root / "runs" / run
    folder.mkdir(parents=True)
    version = Pushed(version=pushed.name, path=str(pushed)) if pushed else None
    write_record(
        RunRecord(
            run=run,
            path=str(folder),
            name=ranker,
            status="pushed" if pushed else "refused",
            pushed=version,
            total_seconds=1.0,
        )
    )
    return folder


def test_a_folder_of_versions_is_its_newest(versions: Path) -> None:
    assert sangam.load is load
    assert place_of(versions).folder == versions / "20240302001"
    assert place_of(versions / "20240301001").folder == versions / "20240301001"


def test_a_changed_file_is_refused(versions: Path) -> None:
    with (versions / "20240302001" / "saved_model.pb").open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=place_and_value(str(versions / "20240302001"), "(got saved_model.pb")):
        place_of(versions)


def test_a_root_is_the_model_that_was_pushed_last(versions: Path) -> None:
    root = versions.parent.parent
    first = _add_run(root, "20240301T000000-00000001", versions / "20240301001")
    _add_run(root, "20240302T000000-00000002", None)
    assert place_of(root).folder == place_of(first).folder == versions / "20240301001"
    refused = root / "runs" / "20240302T000000-00000002"
    with pytest.raises(UserError, match=place_and_value(str(refused), "(got no training")):
        place_of(refused)
    _add_run(root, "20240303T000000-00000003", versions / "20240302001", ranker="other")
    with pytest.raises(UserError, match=place_and_value(str(root), "(got other, tiny)")):
        place_of(root)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value(str(tmp_path / "x"), "(got no such folder)")):
        place_of(tmp_path / "x")
    (tmp_path / "runs").mkdir()
    with pytest.raises(UserError, match=place_and_value(str(tmp_path), "(got none)")):
        place_of(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UserError, match=place_and_value(str(tmp_path / "model"), "ranker.json")):
        load(tmp_path / "model")


def test_a_model_on_an_object_store_is_copied_and_scores(bucket: Bucket, versions: Path) -> None:
    address = bucket.upload(versions, "serving/tiny")
    model = load(address)
    np.testing.assert_allclose(model.score(frame())["like"], LIKE, rtol=0, atol=WITHIN)
    assert json.loads(bucket.get("serving/tiny/20240302001/manifest.json"))
    with pytest.raises(UserError, match=place_and_value(f"{bucket.uri}/none", "(got no saved_model.pb)")):
        load(f"{bucket.uri}/none")
