from pathlib import Path
from typing import BinaryIO

import pytest

from sangam.components.logs.files.digests import sha256_of
from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import resolve
from sangam.components.logs.rows.equal_files import notes_on_equal_files, of_equal_sizes
from sangam.schemas.errors import UserError
from tests.components.logs.sample_logs import day_logs
from tests.errors import mentions, place_and_value

DAYS = ("2024-02-28", "2024-02-29", "2024-03-01")


def open_binary(path: str) -> BinaryIO:
    return open(path, "rb")


def notes(root: Path, allowed: str) -> list[str]:
    logs = day_logs("csv", equal_files=allowed)
    files = resolve(logs, DAYS[-1], str(root), LocalStorage()).files
    digests = sha256_of(of_equal_sizes(files), open_binary)
    return notes_on_equal_files(files, digests, logs, open_binary)


@pytest.mark.parametrize("copy", ["2024-02-29/part-0 (copy).csv", "2024-02-28/part-0.csv", "2024-03-01/part-1.csv"])
def test_rows_that_would_count_twice_in_a_day_a_split_or_two_are_refused(tmp_path: Path, copy: str) -> None:
    for number, day in enumerate(DAYS):
        (tmp_path / day).mkdir()
        (tmp_path / day / "part-0.csv").write_text(f"n\n{number}\n", encoding="utf-8")
    assert notes(tmp_path, "error") == []
    (tmp_path / copy).write_bytes((tmp_path / "2024-02-29/part-0.csv").read_bytes())
    second, first = sorted((copy, "2024-02-29/part-0.csv"), reverse=True)
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/{second}", f"{tmp_path}/{first} (got sha256")):
        notes(tmp_path, "error")
    [note] = notes(tmp_path, "read")
    assert mentions(note, f"1 files ... {tmp_path}/{second} ... {tmp_path}/{first}")


def test_files_without_rows_may_be_equal(tmp_path: Path) -> None:
    for day in DAYS:
        (tmp_path / day).mkdir()
        (tmp_path / day / "part-0.csv").write_text("n\n", encoding="utf-8")
        (tmp_path / day / "part-1.csv").write_text("", encoding="utf-8")
    assert notes(tmp_path, "error") == []
