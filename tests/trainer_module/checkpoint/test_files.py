"""A checkpoint on disk: whole or not there, whatever happens while it is written; a damaged one is refused."""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.host.backoff import Backoff
from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint import writer as writing
from sangam.trainer_module.checkpoint.files import CheckpointError, DamagedError, read_array, read_bytes, write_array
from sangam.trainer_module.checkpoint.manifest import MANIFEST, encode, read_manifest
from sangam.trainer_module.checkpoint.writer import NotWrittenError, Writer, write
from tests.errors import place_and_value
from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, all_rows, contents, manifest, write_all

ALONE = {name: np.zeros(500, np.int32) for name in GROUPS}


@pytest.mark.parametrize(
    "array",
    [np.zeros([0, 50], np.float32), np.array(3.5), np.arange(6, dtype=np.int64).reshape(2, 3).T, np.ones(3, np.bool_)],
    ids=["no rows", "a number", "transposed", "flags"],
)
def test_arrays_come_back_and_numpy_reads_them_too(tmp_path: Path, array: np.ndarray) -> None:
    record = write_array(tmp_path / "a.npy", array)
    got = read_array(tmp_path / "a.npy", record)
    assert got.dtype == array.dtype
    assert got.shape == array.shape
    np.testing.assert_array_equal(got, array)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)


def test_arrays_longer_than_a_chunk_come_back(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(100_003, 26)).astype(np.float32)
    np.testing.assert_array_equal(read_array(tmp_path / "a.npy", write_array(tmp_path / "a.npy", array)), array)


def _read_all(directory: Path) -> set[str]:
    """Reads every file that the manifest names; returns the names."""
    found = read_manifest(directory)
    for name, record in found.files.items():
        read_array(directory / name, record) if record.shape is not None else read_bytes(directory / name, record)
    return set(found.files)


def _verify(directory: Path) -> None:
    assert {path.name for path in directory.iterdir()} == _read_all(directory) | {MANIFEST}


def _die_at(operation: int) -> None:
    """Makes this process end in the midst of its n-th write, fsync, rename or removal."""
    left = [operation]

    def dying(name: str, real):  # type: ignore[no-untyped-def]
        def call(*arguments, **named):  # type: ignore[no-untyped-def]
            if left[0] == 0:
                if name == "write":
                    descriptor, data = arguments
                    real(descriptor, data[: len(data) // 2])
                os._exit(9)
            left[0] -= 1
            return real(*arguments, **named)

        return call

    for name in ("write", "fsync", "rename", "replace", "remove", "rmdir"):
        setattr(os, name, dying(name, getattr(os, name)))


@pytest.mark.processes
def test_a_crash_at_any_moment_leaves_the_one_before_or_the_new_one_whole(tmp_path: Path) -> None:
    write_all(folder.step_folder(tmp_path, 7), ALONE, ranks=1)
    died, operation = [], 0
    while True:
        child = os.fork()
        if child == 0:
            try:
                _die_at(operation)
                write_all(folder.step_folder(tmp_path, 8), ALONE, ranks=1, step=8)
                folder.prune(tmp_path, 1)
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        last = folder.newest(tmp_path, "job")
        assert last is not None
        _verify(last)
        died.append(last.name)
        folder.clear(tmp_path, "job")
        assert sorted(os.listdir(tmp_path)) == [path.name for path in folder.published(tmp_path)]
        if code == 0:
            break
        if last.name == "step-000000000008":
            folder.remove(last)
            write_all(folder.step_folder(tmp_path, 7), ALONE, ranks=1)
        operation += 1
    # It died before and after the rename that counts, and at all the writes of a dozen files.
    assert len(set(died)) == 2
    assert operation > 30
    assert [path.name for path in folder.published(tmp_path)] == ["step-000000000008"]


def test_every_altered_cut_or_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    write_all(whole, ALONE, ranks=1)
    for name in sorted(os.listdir(whole)):
        path, content = whole / name, (whole / name).read_bytes()
        for damage in (content[:-1], content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :], None):
            if damage is None:
                path.unlink()
            elif damage != content:
                path.write_bytes(damage)
            else:
                continue
            with pytest.raises(CheckpointError) as refused:
                _read_all(whole)
            assert "\n" not in str(refused.value)
            assert name in str(refused.value)
            path.write_bytes(content)
    _verify(whole)


def test_another_format_is_refused(tmp_path: Path) -> None:
    tmp_path.joinpath(MANIFEST).write_bytes(encode(manifest(ranks=1).model_copy(update={"format": 99})))
    with pytest.raises(CheckpointError, match=place_and_value("...", "(got 99) ... training.mode: full")):
        read_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=place_and_value(str(tmp_path), "(got No such file")):
        read_manifest(tmp_path)


def test_rank_0_publishes_when_the_slowest_rank_has_written_and_keeps_the_last(tmp_path: Path) -> None:
    owners = {name: np.arange(500) % 2 for name in GROUPS}
    writers = [Writer(rank) for rank in range(2)]
    for step in (7, 8, 9):
        target = folder.step_folder(tmp_path, step)
        writers[0].start(target, contents(owners, rank=0, ranks=2, step=step), keep=2)
        assert not folder.is_whole(target)
        writers[1].start(target, contents(owners, rank=1, ranks=2, step=step), keep=2)
        for writer in writers:
            writer.finish()
        _verify(target)
    assert [path.name for path in folder.published(tmp_path)] == ["step-000000000008", "step-000000000009"]
    keys = [
        read_array(
            target / f"rank-0000{rank}.adam_8.keys.npy", read_manifest(target).files[f"rank-0000{rank}.adam_8.keys.npy"]
        )
        for rank in (0, 1)
    ]
    assert sorted(np.concatenate(keys)) == sorted(all_rows("adam_8")[0])


def test_a_rank_that_never_writes_is_named_where_training_goes_on(tmp_path: Path) -> None:
    writer = Writer(0, deadline_s=0.2)
    writer.start(tmp_path / "step-000000000007", contents(ALONE, rank=0, ranks=2), keep=1, is_needed=True)
    with pytest.raises(
        NotWrittenError, match=place_and_value("...step-000000000007", "rank 1 ... (got nothing after 0 s)")
    ):
        writer.finish()
    writer.check()
    assert folder.published(tmp_path) == []


def test_what_lacks_its_manifest_is_not_seen(tmp_path: Path) -> None:
    target = folder.step_folder(tmp_path, 7)
    waiting = threading.Thread(
        target=write, args=(target, contents(ALONE, rank=0, ranks=2), 0), kwargs={"deadline_s": 9}
    )
    waiting.start()
    while not (target / "rank-00000.json").exists():
        assert waiting.is_alive()
    assert folder.newest(tmp_path, "job") is None
    write(target, contents(ALONE, rank=1, ranks=2), 1, deadline_s=9)
    waiting.join()
    assert folder.newest(tmp_path, "job") == target


def test_another_jobs_checkpoints_go_and_damaged_ones_stay_to_be_seen(tmp_path: Path) -> None:
    write_all(folder.step_folder(tmp_path, 7), ALONE, ranks=1, job="other")
    write_all(folder.step_folder(tmp_path, 8), ALONE, ranks=1)
    (folder.step_folder(tmp_path, 8) / MANIFEST).write_bytes(b"{}\n{}\n")
    assert folder.newest(tmp_path / "none", "job") is None
    assert folder.clear(tmp_path, "job") == [folder.step_folder(tmp_path, 7)]
    with pytest.raises(DamagedError, match="is damaged: restore it"):
        folder.newest(tmp_path, "job")


def test_leftovers_of_a_killed_process_go(tmp_path: Path) -> None:
    for name in ("step-000000000003", "step-000000000003.best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank-00000.json").write_text("{}")
    (tmp_path / "notes").mkdir()
    folder.clear(tmp_path, "job")
    assert os.listdir(tmp_path) == ["notes"]


def test_of_damaged_checkpoints_the_last_two_are_kept_aside_and_no_longer_counted(tmp_path: Path) -> None:
    for step in (5, 6, 7, 8):
        write_all(folder.step_folder(tmp_path, step), ALONE, ranks=1, step=step)
    for step in (8, 7, 6):
        folder.set_aside(folder.step_folder(tmp_path, step))
    assert folder.newest(tmp_path, "job") == folder.step_folder(tmp_path, 5)
    assert [path.name for path in folder.damaged(tmp_path)] == [
        "damaged-step-000000000007",
        "damaged-step-000000000008",
    ]
    _verify(folder.damaged(tmp_path)[0])
    folder.clear(tmp_path, "job")
    assert len(folder.damaged(tmp_path)) == 2
    folder.clear(tmp_path, "another job")
    assert os.listdir(tmp_path) == []


class FailingDisk:
    """Refuses so many writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, number: int = errno.EIO):
        self.left, self._number, self._write = times, number, os.write
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(writing, "_BACKOFF", Backoff(0.01))

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.left:
            self.left -= 1
            raise OSError(self._number, os.strerror(self._number))
        return self._write(descriptor, data)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOSPC])
def test_what_a_disk_refuses_is_written_again_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    FailingDisk(monkeypatch, 3, number)
    writer = Writer(0)
    writer.start(folder.step_folder(tmp_path, 7), contents(ALONE, rank=0, ranks=1), keep=1)
    writer.finish()
    _verify(folder.step_folder(tmp_path, 7))
    assert writer.take_given_up() == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert os.strerror(number) in caplog.text


def test_what_no_disk_mends_by_itself_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FailingDisk(monkeypatch, 9, errno.EACCES)
    writer = Writer(0)
    writer.start(folder.step_folder(tmp_path, 7), contents(ALONE, rank=0, ranks=1), keep=1)
    with pytest.raises(PermissionError):
        writer.finish()
    assert disk.left == 8


def test_a_checkpoint_that_is_given_up_leaves_the_one_before_and_its_space_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(0, deadline_s=0.1)
    steps = [folder.step_folder(tmp_path, step) for step in (7, 8, 9)]
    for step, target in enumerate(steps, 7):
        with monkeypatch.context() as patched:
            if step == 8:
                FailingDisk(patched, 1000, errno.ENOSPC)
            writer.start(target, contents(ALONE, rank=0, ranks=1, step=step), keep=2)
            writer.finish()
        assert writer.take_given_up() == (step == 8)
        if step == 8:
            assert steps[1].exists()
            assert folder.newest(tmp_path, "job") == steps[0]
    assert sorted(tmp_path.iterdir()) == [steps[0], steps[2]]


def test_a_checkpoint_that_is_needed_fails_as_something_that_may_go_well_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FailingDisk(monkeypatch, 1000)
    writer = Writer(0, deadline_s=0.1)
    writer.start(tmp_path / "final", contents(ALONE, rank=0, ranks=1), is_needed=True)
    with pytest.raises(NotWrittenError, match=place_and_value("final", "(got [Errno 5]")) as failed:
        writer.finish()
    # Exit code 3, which is never tried again, is for users' mistakes alone.
    assert not isinstance(failed.value, UserError)
