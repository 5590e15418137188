from pathlib import Path

import pytest

from components.example_gen.files import resolve
from components.example_gen.inspection import Plan, plan
from components.example_gen.local_files import LocalStorage
from schemas.columns import columns
from schemas.data import DayLogs
from schemas.errors import UserError
from tests.components.small_logs import INPUTS, ROWS, day_logs, write_days

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
    assert lines[0].startswith(f"{tmp_path}/2024-02-28/part-0.parquet: column 'like': is missing")
    assert lines[5].startswith(f"{tmp_path}/2024-03-01/part-0.parquet: column 'tags': is missing")


def test_only_the_first_ten_problems_are_spelled_out(tmp_path: Path) -> None:
    write_days(tmp_path, "parquet", {day: [{"hour": 1}] for day in DAYS})
    with pytest.raises(UserError) as error:
        planned(tmp_path, day_logs())
    lines = str(error.value).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "... and 11 more problems of this kind"


@pytest.mark.parametrize("format_name", ["parquet", "csv", "tfrecord"])
def test_an_empty_file_is_an_error(tmp_path: Path, format_name: str) -> None:
    write_days(tmp_path, format_name, {DAYS[0]: ROWS, DAYS[1]: [], DAYS[2]: ROWS})
    with pytest.raises(UserError, match=r"^\S+/2024-02-29/part-0\S+: has no rows; .*`missing_days: skip`"):
        planned(tmp_path, day_logs(format_name))


@pytest.mark.parametrize("format_name", ["parquet", "csv", "tfrecord"])
def test_an_empty_day_is_a_missing_day_where_these_are_skipped(tmp_path: Path, format_name: str) -> None:
    write_days(tmp_path, format_name, {DAYS[0]: ROWS, DAYS[1]: [], DAYS[2]: ROWS})
    files = planned(tmp_path, day_logs(format_name, missing_days="skip")).files
    assert files.missing_days == ("2024-02-29",)
    assert files.days() == {"train": ["2024-02-28"], "eval": ["2024-03-01"]}


def test_small_splits_have_two_shards(tmp_path: Path) -> None:
    write_days(tmp_path, "parquet", dict.fromkeys(DAYS, ROWS))
    assert planned(tmp_path, day_logs()).num_shards == {"train": 2, "eval": 2}


def test_the_number_of_shards_grows_with_the_rows(tmp_path: Path) -> None:
    write_days(tmp_path, "parquet", {DAYS[0]: ROWS * 12_500, DAYS[1]: ROWS * 25_000, DAYS[2]: ROWS})
    assert planned(tmp_path, day_logs()).num_shards == {"train": 3, "eval": 2}
