from pathlib import Path

import pytest

from components.steps.example_gen.files.local_files import LocalStorage
from components.steps.example_gen.files.resolve import DataFile, FileFacts, Files, resolve
from components.steps.example_gen.inspection import Plan, plan
from components.steps.example_gen.sources import sources
from schemas.derived.columns import columns
from schemas.errors import UserError
from schemas.spec.data import DayLogs
from tests.components.steps.example_gen.sample_logs import INPUTS, ROWS, SUFFIX, day_logs, write, write_days
from tests.errors import place_and_value, tells

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]


def planned(root: Path, logs: DayLogs) -> Plan:
    files = resolve(logs, DAYS[-1], str(root), LocalStorage())
    return plan(files, logs, columns(INPUTS), lambda path: Path(path).open("rb"))


def test_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name not in ("tags", "like")} for row in ROWS]
    write_days(tmp_path, "parquet", dict.fromkeys(DAYS, rows))
    with pytest.raises(UserError) as error:
        planned(tmp_path, day_logs())
    lines = str(error.value).splitlines()
    assert len(lines) == 6
    assert tells(lines[0], f"{tmp_path}/2024-02-28/part-0.parquet: column 'like'", "is missing")
    assert tells(lines[5], f"{tmp_path}/2024-03-01/part-0.parquet: column 'tags'", "is missing")


def test_only_the_first_ten_problems_are_spelled_out(tmp_path: Path) -> None:
    write_days(tmp_path, "parquet", {day: [{"hour": 1}] for day in DAYS})
    with pytest.raises(UserError) as error:
        planned(tmp_path, day_logs())
    lines = str(error.value).splitlines()
    assert len(lines) == 11
    assert lines[-1].startswith("... and 11 more")


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
    files = planned(tmp_path, day_logs(format_name, missing_days="skip")).files
    assert files.missing_days == ("2024-02-29",)
    assert files.days() == {"train": ["2024-02-28"], "eval": ["2024-03-01"]}


def written_together(root: Path, logs: DayLogs) -> list[tuple[str, str | None, int, list[str]]]:
    found = planned(root, logs).sources
    return [(each.split, each.day, each.number, [Path(path).name for path in each.paths]) for each in found]


@pytest.mark.parametrize("format_name", ["parquet", "csv", "tfrecord"])
def test_small_files_of_a_day_are_written_together_and_never_those_of_two_days(
    tmp_path: Path, format_name: str
) -> None:
    write_days(tmp_path, format_name, dict.fromkeys(DAYS, ROWS))
    suffix = SUFFIX[format_name]
    for number in (3, 1, 2):
        write(tmp_path / DAYS[1] / f"part-{number}.{suffix}", format_name, ROWS)
    parts = [f"part-{number}.{suffix}" for number in range(4)]
    assert written_together(tmp_path, day_logs(format_name)) == [
        ("train", DAYS[0], 0, parts[:1]),
        ("train", DAYS[1], 1, parts),
        ("eval", DAYS[2], 0, parts[:1]),
    ]


def test_large_files_are_written_apart_and_cut_into_files_of_as_many_rows(tmp_path: Path) -> None:
    write_days(tmp_path, "parquet", {DAYS[0]: ROWS * 10_000, DAYS[1]: ROWS * 15_000, DAYS[2]: ROWS})
    write(tmp_path / DAYS[0] / "part-1.parquet", "parquet", ROWS * 5_000)
    found = planned(tmp_path, day_logs()).sources
    assert [len(each.paths) for each in found] == [1, 1, 1, 1]
    assert {each.rows_per_file for each in found} == {50_000}


def test_a_split_has_no_more_than_64_files_and_one_more_a_day() -> None:
    files = [DataFile(f"{number:03d}", "train", None, FileFacts(1, 1)) for number in range(1_000)]
    found = sources(Files(None, ("train",), tuple(files)), dict.fromkeys([file.path for file in files], 10_000))
    assert found[0].rows_per_file == 10_000_000 // 64
    assert len(found) == 67
    assert [path for each in found for path in each.paths] == [file.path for file in files]
