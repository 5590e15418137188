"""Checkpoints that somebody has tampered with, whether a job goes on from them or an incremental run starts there."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from sangam.schemas.errors import UserError
from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint.files import CheckpointError, FileRecord, read_array, read_bytes, write_array
from sangam.trainer_module.checkpoint.manifest import MANIFEST, encode, read_manifest, rows_file
from sangam.trainer_module.checkpoint.restore import own_rows, read_dense, read_extra
from tests.errors import place_and_value
from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, manifest, write_all

pytestmark = pytest.mark.slow  # imports TensorFlow

KEYS = rows_file(0, "adam_8", "keys")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    write_all(path, {name: np.zeros(500, np.int32) for name in GROUPS}, ranks=1)
    return path


def test_a_linked_file_is_refused_even_with_the_right_checksum(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / KEYS).rename(tmp_path / "keys")
    (checkpoint / KEYS).symlink_to(tmp_path / "keys")
    with pytest.raises(CheckpointError, match=place_and_value(KEYS, "(got a link")):
        own_rows(checkpoint, read_manifest(checkpoint), "adam_8", rank=0, ranks=1)


def test_a_pipe_in_the_place_of_a_file_is_never_opened(checkpoint: Path) -> None:
    (checkpoint / KEYS).unlink()
    os.mkfifo(checkpoint / KEYS)
    with pytest.raises(CheckpointError, match=place_and_value(KEYS, "(got a link")):
        own_rows(checkpoint, read_manifest(checkpoint), "adam_8", rank=0, ranks=1)


def test_arrays_of_python_objects_are_never_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([print, None], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        np.load(path)
    record = write_array(tmp_path / "b.npy", np.zeros(2))
    with pytest.raises(CheckpointError, match=r"holds object\b"):
        read_array(path, record.model_copy(update={"bytes": path.stat().st_size}))


@pytest.mark.parametrize("name", ["dense.../../secret.npy", "all.../../secret.npy", "dense./etc/passwd.npy"])
def test_a_manifest_cannot_name_an_array_outside_its_checkpoint(checkpoint: Path, name: str) -> None:
    sound = read_manifest(checkpoint)
    forged = sound.model_copy(update={"files": {**sound.files, name: FileRecord(bytes=6, crc32=0, shape=(1,))}})
    (checkpoint / MANIFEST).write_bytes(encode(forged))
    with pytest.raises(ValueError, match=re.escape(f"(got {name.removesuffix('.npy').split('.', 1)[1]!r})")):
        read_dense(checkpoint, read_manifest(checkpoint)) and read_extra(checkpoint, read_manifest(checkpoint))


def test_a_manifest_cannot_name_a_group_outside_its_checkpoint(checkpoint: Path) -> None:
    with pytest.raises(ValueError, match=re.escape("(got '../../secret')")):
        own_rows(checkpoint, manifest(ranks=1), "../../secret", rank=0, ranks=1)


def test_a_forged_manifest_without_its_seal_is_refused(checkpoint: Path) -> None:
    content = (checkpoint / MANIFEST).read_bytes()
    (checkpoint / MANIFEST).write_bytes(content.replace(b'"ranks":1', b'"ranks":2'))
    with pytest.raises(CheckpointError, match="is damaged"):
        read_manifest(checkpoint)


def test_removing_a_linked_checkpoint_leaves_what_it_leads_to(checkpoint: Path, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    folder.step_folder(jobs, 7).symlink_to(checkpoint)
    assert folder.newest(jobs, "job") is None
    folder.remove(folder.step_folder(jobs, 7))
    assert list(jobs.iterdir()) == []
    read_manifest(checkpoint)
    assert (checkpoint / KEYS).exists()


def test_no_checkpoint_is_written_through_a_link(checkpoint: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
    (tmp_path / "jobs").mkdir()
    target = folder.step_folder(tmp_path / "jobs", 7)
    target.symlink_to(checkpoint)
    rows = {name: np.zeros(500, np.int32) for name in GROUPS}
    with pytest.raises(UserError, match=place_and_value(str(target), f"(got one to {checkpoint})")):
        write_all(target, rows, ranks=1)
    target.unlink()
    target.mkdir()
    (target / KEYS).symlink_to(checkpoint / KEYS)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_all(target, rows, ranks=1)
    assert {path.name: path.read_bytes() for path in checkpoint.iterdir()} == before


def test_bytes_are_read_with_their_checksum_too(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match="checksum"):
        read_bytes(tmp_path / "history.json", FileRecord(bytes=2, crc32=1))
