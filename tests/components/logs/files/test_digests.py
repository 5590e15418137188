"""What a file holds is read once, and again when its size or time has changed, or when somebody asks for it."""

import hashlib
import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from sangam.components.logs.files.digests import digests_of, forget
from sangam.components.logs.files.listing import FileFacts
from sangam.components.logs.files.resolve import DataFile
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from tests.errors import tells

OLD_NS = 10**18


class Reading:
    """Opens files, and counts that."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def __call__(self, path: str) -> BinaryIO:
        self.opened.append(Path(path).name)
        return open(path, "rb")


def written(folder: Path, name: str, content: bytes, mtime_ns: int = OLD_NS) -> DataFile:
    path = folder / name
    path.write_bytes(content)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return DataFile(str(path), "train", None, FileFacts(len(content), mtime_ns))


def test_a_digest_is_computed_once_for_one_size_and_time(tmp_path: Path) -> None:
    reading = Reading()
    first, second = written(tmp_path, "a", b"one"), written(tmp_path, "b", b"two")
    found = digests_of([first, second], str(tmp_path), reading)
    assert found == {file.path: hashlib.sha256(text).hexdigest() for file, text in ((first, b"one"), (second, b"two"))}
    assert digests_of([first, second], str(tmp_path), reading) == found
    assert sorted(reading.opened) == ["a", "b"]
    touched = written(tmp_path, "a", b"one", OLD_NS + 1)
    assert digests_of([touched, second], str(tmp_path), reading) == found
    assert sorted(reading.opened) == ["a", "a", "b"]


def test_other_bytes_of_the_same_size_and_time_are_seen_after_a_full_reading(tmp_path: Path) -> None:
    before = digests_of([written(tmp_path, "a", b"one")], str(tmp_path), Reading())
    other = written(tmp_path, "a", b"eno")
    assert digests_of([other], str(tmp_path), Reading()) == before
    forget(tmp_path)
    assert digests_of([other], str(tmp_path), Reading()) != before


def test_a_file_that_was_just_written_is_read_again(tmp_path: Path) -> None:
    file, reading = written(tmp_path, "a", b"one"), Reading()
    for seconds, times in ((1, 1), (1, 2), (3, 3), (3, 3)):
        digests_of([file], str(tmp_path), reading, now_ns=lambda now=OLD_NS + seconds * 10**9: now)
        assert len(reading.opened) == times


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1}', b"\xff", b'{"format": 3, "files": {}}'])
def test_a_cache_that_is_half_written_is_made_anew(tmp_path: Path, content: bytes) -> None:
    cache = Root(str(tmp_path)).digests
    cache.parent.mkdir()
    cache.write_bytes(content)
    file, reading = written(tmp_path, "a", b"one"), Reading()
    for _ in range(2):
        assert digests_of([file], str(tmp_path), reading)[file.path] == hashlib.sha256(b"one").hexdigest()
    assert reading.opened == ["a"]
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


def test_runs_at_the_same_time_leave_a_whole_cache(tmp_path: Path) -> None:
    files = [written(tmp_path, str(number), b"x" * number) for number in range(20)]
    threads = [
        threading.Thread(target=digests_of, args=(files[start::4], str(tmp_path), Reading())) for start in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reading = Reading()
    digests_of(files, str(tmp_path), reading)
    assert len(reading.opened) < 20
    assert len(digests_of(files, str(tmp_path), Reading())) == 20


def test_files_that_cannot_be_read_or_grow_meanwhile_are_named_together(tmp_path: Path) -> None:
    gone = DataFile(str(tmp_path / "gone"), "train", None, FileFacts(1, 1))
    grows = written(tmp_path, "grows", b"three")
    listed = DataFile(grows.path, "train", None, FileFacts(3, OLD_NS))
    with pytest.raises(UserError) as error:
        digests_of([gone, listed], str(tmp_path), Reading())
    first, second = str(error.value).splitlines()
    assert tells(first, gone.path, "(got: ")
    assert tells(second, grows.path, "(got 5 bytes, listed with 3)")
    assert not (Root(str(tmp_path)).digests).exists()


def test_a_root_that_cannot_be_written_to_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "ingestion").write_text("a file where the folder would be")
    file = written(tmp_path, "a", b"one")
    assert digests_of([file], str(tmp_path), Reading())
