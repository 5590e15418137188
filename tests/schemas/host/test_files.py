"""Small files, whole or not at all, and the end of a log."""

import os
import stat
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from sangam.schemas.host import files
from sangam.schemas.host.files import read_end, tail, write_first, write_whole


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "record.json", "old")
    write_whole(tmp_path / "record.json", "größer\n")
    assert (tmp_path / "record.json").read_bytes() == "größer\n".encode()
    write_whole(tmp_path / "record.json", b"\xff")
    assert (tmp_path / "record.json").read_bytes() == b"\xff"
    assert os.listdir(tmp_path) == ["record.json"]


def test_a_file_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "record.json", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "record.json").stat().st_mode) == 0o640


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_file_of_before(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "record.json", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, broken, full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "record.json", "new")
    assert (tmp_path / "record.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["record.json"]


def test_writers_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    contents = [letter * 100_000 for letter in "abcdefgh"]
    with ThreadPool(8) as pool:
        pool.map(lambda content: write_whole(tmp_path / "record.json", content), contents)
    assert (tmp_path / "record.json").read_text() in contents
    assert os.listdir(tmp_path) == ["record.json"]


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    assert tail(log, 2) == "(no log)"
    log.write_text("\n")
    assert tail(log, 2) == "(empty log)"
    log.write_text("one\ntwo\nthree\n\n")
    assert tail(log, 2) == "two\nthree"
    assert tail(log, 9) == "one\ntwo\nthree"


def test_of_a_large_file_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"x" * 1_000_000 + b"\n\xffend")
    assert tail(log, 1) == "\ufffdend"
    assert len(tail(log, 5)) < 17_000
    assert read_end(log, 3) == "end"
    assert read_end(log, 10**9, start=1_000_002) == "end"
    assert read_end(tmp_path / "none", 3) == ""


@pytest.mark.parametrize("has_links", [True, False])
def test_of_several_first_writers_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(files.os, "link", no_links)
    for text in ("first", "second"):
        write_first(tmp_path / "date", text)
    assert (tmp_path / "date").read_text() == "first"
    assert os.listdir(tmp_path) == ["date"]


def test_first_writers_at_once_leave_one_whole_text(tmp_path: Path) -> None:
    texts = [f"{number}" * 5000 for number in range(8)]
    with ThreadPool(8) as pool:
        pool.map(lambda text: write_first(tmp_path / "date", text), texts)
    assert (tmp_path / "date").read_text() in texts
    assert os.listdir(tmp_path) == ["date"]
