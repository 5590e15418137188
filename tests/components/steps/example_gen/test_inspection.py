from pathlib import Path

import pytest

from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import DataFile, FileFacts, Files, resolve, without
from sangam.components.steps.example_gen.file_groups import file_groups
from sangam.components.steps.example_gen.inspection import Inspected, inspect
from sangam.schemas.derived.columns import columns
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs
from tests.components.logs.sample_logs import INPUTS, ROWS, SUFFIX, day_logs, write, write_days
from tests.errors import place_and_value, tells

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]


def resolved(root: Path, logs: DayLogs) -> Files:
    return resolve(logs, DAYS[-1], str(root), LocalStorage())


def planned(root: Path, logs: DayLogs) -> Inspected:
    return inspect(resolved(root, logs).files, logs, columns(INPUTS), lambda path: Path(path).open("rb"))


def test_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name not in ("tags", "like")} for row in ROWS]
    write_days(tmp_path, "parquet", dict.fromkeys(DAYS, rows))
    with pytest.raises(UserError) as error:
        planned(tmp_path, day_logs())
    lines = str(error.value).splitlines()
    first, last = (f"{tmp_path}/{day}/part-0.parquet" for day in (DAYS[0], DAYS[-1]))
    assert len(lines) == 2
    assert tells(lines[0], f"{first} and 2 more files to {last}: column 'like'", "is missing")
    assert tells(lines[1], f"{first} and 2 more files to {last}: column 'tags'", "is missing")


@pytest.mark.parametrize("format_name", ["parquet", "csv", "tfrecord"])
def test_an_empty_file_is_an_error(tmp_path: Path, format_name: str) -> None:
    write_days(tmp_path, format_name, {DAYS[0]: ROWS, DAYS[1]: [], DAYS[2]: ROWS})
    with pytest.raises(
        UserError, match=place_and_value(".../2024-02-29/part-0...", "no rows ... `missing_days: skip`")
    ):
        planned(tmp_path, day_logs(format_name))


@pytest.mark.parametrize("format_name", ["parquet", "csv", "tfrecord"])
def test_an_empty_day_is_a_missing_day_where_these_are_skipped(tmp_path: Path, format_name: str) -> None:
    write_days(tmp_path, format_name, {DAYS[0]: ROWS, DAYS[1]: [], DAYS[2]: ROWS})
    logs = day_logs(format_name, missing_days="skip")
    files = without(resolved(tmp_path, logs), logs, planned(tmp_path, logs).empty)
    assert files.missing_days == ("2024-02-29",)
    assert files.days() == {"train": ["2024-02-28"], "eval": ["2024-03-01"]}


def read_together(root: Path, logs: DayLogs, day: str) -> list[list[str]]:
    files = [file for file in resolved(root, logs).files if file.day == day]
    found = file_groups(files, planned(root, logs).rows, "folder")
    assert [(each.day, each.number) for each in found] == [(day, number) for number in range(len(found))]
    return [[Path(path).name for path in each.paths] for each in found]


@pytest.mark.parametrize("format_name", ["parquet", "csv", "tfrecord"])
def test_small_files_of_a_day_are_read_together(tmp_path: Path, format_name: str) -> None:
    write_days(tmp_path, format_name, dict.fromkeys(DAYS, ROWS))
    suffix = SUFFIX[format_name]
    for number in (3, 1, 2):
        write(tmp_path / DAYS[1] / f"part-{number}.{suffix}", format_name, ROWS)
    parts = [f"part-{number}.{suffix}" for number in range(4)]
    assert read_together(tmp_path, day_logs(format_name), DAYS[0]) == [parts[:1]]
    assert read_together(tmp_path, day_logs(format_name), DAYS[1]) == [parts]


def test_large_files_are_read_apart(tmp_path: Path) -> None:
    write_days(tmp_path, "parquet", {DAYS[0]: ROWS * 10_000, DAYS[1]: ROWS * 15_000, DAYS[2]: ROWS})
    write(tmp_path / DAYS[0] / "part-1.parquet", "parquet", ROWS * 5_000)
    assert read_together(tmp_path, day_logs(), DAYS[0]) == [["part-0.parquet"], ["part-1.parquet"]]


def test_a_day_of_many_small_files_has_about_64_groups() -> None:
    files = [DataFile(f"{number:03d}", "train", None, FileFacts(1, 1)) for number in range(1_000)]
    found = file_groups(files, dict.fromkeys([file.path for file in files], 10_000), "folder")
    assert len(found) == 67
    assert [path for each in found for path in each.paths] == [file.path for file in files]
