import datetime
import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sangam.components.logs.files.digests import digests_of
from sangam.components.logs.files.listing import OneListing
from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import (
    Files,
    changed_files,
    days_with_files,
    fingerprint,
    resolve,
    without,
)
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import Logs, SplitLogs
from tests.components.logs.sample_logs import day_logs
from tests.errors import place_and_value, tells

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def open_binary(path: str) -> BinaryIO:
    return open(path, "rb")


def resolved(root: Path, logs: Logs | None = None, date: str = "2024-03-01") -> Files:
    return resolve(logs or day_logs(), date, str(root), LocalStorage())


def split_logs(**splits: Any) -> SplitLogs:
    return SplitLogs.model_validate({"kind": "splits", "format": "parquet", "splits": splits})


def test_the_last_days_are_evaluated_on_and_those_before_trained_on(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/{name}.parquet" for day in ["2024-02-27", *DAYS, "2024-03-02"] for name in ("b", "a")))
    files = resolved(tmp_path)
    assert files.days() == {"train": DAYS[:2], "eval": DAYS[2:]}
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in files.of_split("train")] == [
        "2024-02-28/a.parquet",
        "2024-02-28/b.parquet",
        "2024-02-29/a.parquet",
        "2024-02-29/b.parquet",
    ]


def test_the_newest_train_days_are_read_into_the_validation_split(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    files = resolved(tmp_path, day_logs(validation_days=1))
    assert files.splits == ("train", "validation", "eval")
    assert files.days() == {"train": DAYS[:1], "validation": DAYS[1:2], "eval": DAYS[2:]}


@pytest.mark.parametrize(("missing", "split"), [(0, "train"), (1, "validation")])
def test_a_train_and_a_validation_day_must_be_left(tmp_path: Path, missing: int, split: str) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS if day != DAYS[missing]))
    with pytest.raises(
        UserError, match=place_and_value("data.pattern: ...", f"'{split}' ... (got no rows for {DAYS[missing]})")
    ):
        resolved(tmp_path, day_logs(missing_days="skip", validation_days=1))


def test_all_missing_days_are_named_at_once(tmp_path: Path) -> None:
    touch(tmp_path, "2024-02-29/a.parquet")
    with pytest.raises(
        UserError,
        match=place_and_value("data.pattern: ...", "(got none for 2024-02-28, 2024-03-01) ... `missing_days: skip`"),
    ):
        resolved(tmp_path)


def test_skipped_days_are_reported(tmp_path: Path) -> None:
    touch(tmp_path, "2024-02-29/a.parquet", "2024-03-01/a.parquet")
    files = resolved(tmp_path, day_logs(missing_days="skip"))
    assert files.missing_days == ("2024-02-28",)
    assert files.days() == {"train": ["2024-02-29"], "eval": ["2024-03-01"]}


def test_a_split_without_any_day_is_an_error_even_with_skip(tmp_path: Path) -> None:
    touch(tmp_path, "2024-02-28/a.parquet", "2024-02-29/a.parquet")
    with pytest.raises(
        UserError, match=place_and_value("data.pattern: ...", "'eval' ... (got no rows for 2024-03-01)")
    ):
        resolved(tmp_path, day_logs(missing_days="skip"))


def test_days_without_leading_zeros_are_told_with_their_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "month=3/2024-1/a.parquet")
    logs = day_logs(pattern="month={MM}/{YYYY}-{DD}/*.parquet")
    with pytest.raises(UserError, match=place_and_value("data.pattern: ...", "write month={M}/{YYYY}-{D}/*.parquet")):
        resolved(tmp_path, logs)


def test_a_window_without_any_file_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=place_and_value("data.pattern: ...{YYYY}...", "(got none from 2024-02-28 to 2024-03-01)")
    ):
        resolved(tmp_path)


@pytest.mark.parametrize("date", ["yesterday", "2024-3-1", "2024-02-30", "../2024-03-01", ""])
def test_what_is_no_date_is_an_error(tmp_path: Path, date: str) -> None:
    with pytest.raises(UserError, match=place_and_value("date", f"(got {date!r}) ... YYYY-MM-DD")):
        resolved(tmp_path, date=date)


def test_a_date_before_the_calendar_began_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^date: .*before year 1"):
        resolved(tmp_path, date="0001-01-01")


def test_markers_and_temporary_files_are_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    touch(
        tmp_path, *(f"2024-03-01/{name}" for name in ("_SUCCESS", ".a.parquet", "_b.parquet", "_temporary/c.parquet"))
    )
    files = resolved(tmp_path, day_logs(pattern="{YYYY}-{MM}-{DD}/*"))
    assert len(files.files) == 3
    deep = resolved(tmp_path, day_logs(pattern="{YYYY}-{MM}-{DD}/*", train_days=1))
    assert len(deep.files) == 2


def test_a_folder_that_a_pattern_names_may_start_with_an_underscore(tmp_path: Path) -> None:
    touch(tmp_path, *(f"_logs/{day}.parquet" for day in DAYS))
    assert len(resolved(tmp_path, day_logs(pattern="_logs/{YYYY}-{MM}-{DD}.parquet")).files) == 3


def test_a_data_folder_with_brackets_in_its_name_is_read(tmp_path: Path) -> None:
    touch(tmp_path / "a[1]*", *(f"{day}/a.parquet" for day in DAYS))
    assert len(resolved(tmp_path / "a[1]*").files) == 3


def test_a_file_that_two_days_match_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path, "2024-02-28_2024-02-29_2024-03-01.parquet")
    with pytest.raises(
        UserError, match=place_and_value("...03-01.parquet", "(got train 2024-02-28 and train 2024-02-29)")
    ):
        resolved(tmp_path, day_logs(pattern="*{YYYY}-{MM}-{DD}*.parquet"))


def test_named_splits_stand_in_order_and_have_no_days(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.parquet", "b/1.parquet", "c/1.parquet")
    files = resolved(tmp_path, split_logs(train="a/*", eval="b/*", validation="c/*"), date="")
    assert files.splits == ("train", "validation", "eval")
    assert files.date is None
    assert files.days() == {"train": [], "validation": [], "eval": []}


def test_a_share_of_the_train_rows_reads_the_train_files_for_two_splits(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.parquet", "a/2.parquet", "b/1.parquet")
    files = resolved(tmp_path, split_logs(train="a/*", eval="b/*", validation={"fraction": 0.1}), date="")
    names = [(file.split, Path(file.path).relative_to(tmp_path).as_posix()) for file in files.files]
    of_train = ["a/1.parquet", "a/2.parquet"]
    assert names == [
        *(("train", name) for name in of_train),
        *(("validation", name) for name in of_train),
        ("eval", "b/1.parquet"),
    ]
    assert [file.split for file in files.of_log] == ["train", "train", "eval"]


def test_every_split_without_files_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.parquet")
    with pytest.raises(UserError, match=r"(?s)data\.splits\.train: .*data\.splits\.eval: "):
        resolved(tmp_path, split_logs(train="a/2*", eval="b/*"))


def test_what_is_no_regular_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    bad = tmp_path / DAYS[1]
    (bad / "b.parquet").symlink_to("gone.parquet")
    os.mkfifo(bad / "c.parquet")
    (bad / "d.parquet").mkdir()
    monkeypatch.chdir(bad)  # The path of a socket must be short.
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("e.parquet")
    (bad / "f.parquet").symlink_to("/dev/null")
    (bad / "g.parquet").symlink_to("g.parquet")
    (bad / "h.parquet").symlink_to(tmp_path / DAYS[0] / "a.parquet")
    with pytest.raises(UserError) as error:
        resolved(tmp_path)
    got = {
        "b": "(got gone.parquet)",
        "c": "(got a named pipe)",
        "d": "(got a folder)",
        "e": "(got a socket)",
        "f": "(got a device)",
        "g": "(got: Too many levels of symbolic links)",
    }
    lines = str(error.value).splitlines()
    assert len(lines) == len(got)
    for line, (name, value) in zip(lines, got.items(), strict=True):
        assert tells(line, f"{bad}/{name}.parquet", value)
    for name in "bcdefg":
        path = bad / f"{name}.parquet"
        path.rmdir() if name == "d" else path.unlink()
    assert [Path(file.path).stem for file in resolved(tmp_path).files] == ["a", "a", "h", "a"]


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))

    def scan(folder: str) -> Any:
        if folder.endswith(DAYS[1]):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return os.scandir(folder)

    with pytest.raises(UserError, match=place_and_value(str(DAYS[1]), "(got: Permission denied)")):
        resolve(day_logs(), DAYS[2], str(tmp_path), LocalStorage(scan=scan))


class SlowStore:
    """A local folder that answers the first looks at files only once so many of them are under way."""

    def __init__(self, at_once: int):
        self.scans = self.looks = 0
        self._at_once, self._together = at_once, threading.Barrier(at_once)
        self._counting = threading.Lock()

    def storage(self) -> LocalStorage:
        return LocalStorage(scan=self._scan, look=self._look)

    def _scan(self, folder: str) -> Any:
        with self._counting:
            self.scans += 1
        return os.scandir(folder)

    def _look(self, path: str) -> os.stat_result:
        with self._counting:
            self.looks += 1
            is_early = self.looks <= self._at_once
        if is_early:
            self._together.wait(60)
        return os.stat(path)


def test_a_store_that_answers_slowly_is_asked_by_many_and_once_for_each_day(tmp_path: Path) -> None:
    start = datetime.date(2024, 2, 16)
    days = [str(start + datetime.timedelta(days=number)) for number in range(14)]
    for day in days:
        (tmp_path / day).mkdir()
        for number in range(100):
            (tmp_path / day / f"{number}.parquet").touch()
    store = SlowStore(at_once=16)
    logs = day_logs(train_days=13)
    listing = OneListing(store.storage())
    window = [datetime.date.fromisoformat(day) for day in days]
    assert days_with_files(logs, window, str(tmp_path), listing) == window
    files = resolve(logs, days[-1], str(tmp_path), listing)
    # Logs of table formats are looked for in the folders of the first and the last file, and above them.
    num_folders = len(tmp_path.parts) + 2
    assert len(files.files) == 1400
    assert 14 <= store.scans <= 14 + 2 * num_folders
    assert 1400 <= store.looks <= 1400 + num_folders


def test_files_that_changed_between_two_listings_are_named(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    before = resolved(tmp_path)
    (tmp_path / DAYS[0] / "a.parquet").write_bytes(b"longer")
    touch(tmp_path, f"{DAYS[1]}/b.parquet")
    (tmp_path / DAYS[1] / "a.parquet").unlink()
    assert changed_files(before, before) == []
    written, removed, added = changed_files(before, resolved(tmp_path))
    assert tells(written, f"{tmp_path}/{DAYS[0]}/a.parquet", "(got 1 bytes, then 6)")
    assert tells(removed, f"{tmp_path}/{DAYS[1]}/a.parquet", "removed")
    assert tells(added, f"{tmp_path}/{DAYS[1]}/b.parquet", "added")


def test_a_file_in_two_splits_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.parquet")
    with pytest.raises(UserError, match=place_and_value("...a/1.parquet", "(got train and eval)")):
        resolved(tmp_path, split_logs(train="a/*", eval="a/1*"))


def test_a_day_of_empty_files_is_a_missing_day(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    logs = day_logs(missing_days="skip")
    files = resolved(tmp_path, logs)
    assert without(files, logs, [str(tmp_path / DAYS[0] / "a.parquet")]).missing_days == ("2024-02-28",)
    with pytest.raises(UserError, match=place_and_value("data.pattern: ...", "'eval' ... 2024-03-01")):
        without(files, logs, [str(tmp_path / DAYS[2] / "a.parquet")])


def test_the_fingerprint_tells_every_change_of_the_files(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    path = tmp_path / DAYS[0] / "a.parquet"

    def now() -> str:
        files = resolved(tmp_path)
        return fingerprint(files, str(tmp_path), digests_of(files.files, str(tmp_path / "root"), open_binary))

    first = now()
    assert now() == first
    path.write_bytes(b"y")
    other_content = now()
    path.write_bytes(b"longer")
    os.utime(path, ns=(1, 1))
    longer = now()
    os.utime(path, ns=(2, 2))
    assert now() == longer, "a file that was only touched is no other file"
    path.rename(path.with_name("c.parquet"))
    other_name = now()
    touch(tmp_path, f"{DAYS[0]}/b.parquet")
    assert len({first, other_content, longer, other_name, now()}) == 5


def test_the_fingerprint_does_not_depend_on_where_the_data_lies(tmp_path: Path) -> None:
    found = set()
    for root in (tmp_path / "one", tmp_path / "two"):
        touch(root, *(f"{day}/a.parquet" for day in DAYS))
        files = resolved(root)
        found.add(fingerprint(files, str(root), dict.fromkeys((file.path for file in files.files), "digest")))
    assert len(found) == 1
