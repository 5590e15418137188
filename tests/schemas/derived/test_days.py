"""From a run's date to its days and their files."""

import datetime
import fnmatch
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sangam.schemas.derived.days import any_day, day_expression, day_in, file_pattern, parse_day, window
from sangam.schemas.spec.data import DayLogs

DAYS = st.dates(min_value=datetime.date(1970, 1, 1), max_value=datetime.date(9000, 1, 1))
ONE_DAY = datetime.timedelta(days=1)


def _logs(train_days: int, eval_days: int, validation_days: int = 0) -> DayLogs:
    return DayLogs(
        kind="days",
        format="csv",
        pattern="{YYYY}/{MM}/{DD}.csv",
        train_days=train_days,
        eval_days=eval_days,
        validation_days=validation_days,
    )


def _written(days: list[datetime.date]) -> list[str]:
    return [day.isoformat() for day in days]


@pytest.mark.parametrize(
    ("date", "train", "evaluation"),
    [
        ("2024-03-01", ["2024-02-28", "2024-02-29"], ["2024-03-01"]),
        ("2023-03-01", ["2023-02-27", "2023-02-28"], ["2023-03-01"]),
        ("2024-01-01", ["2023-12-30", "2023-12-31"], ["2024-01-01"]),
        ("2000-03-01", ["2000-02-28", "2000-02-29"], ["2000-03-01"]),
        ("2100-03-01", ["2100-02-27", "2100-02-28"], ["2100-03-01"]),
    ],
)
def test_window_crosses_leap_days_and_years(date: str, train: list[str], evaluation: list[str]) -> None:
    days = window(_logs(2, 1), parse_day(date))
    assert {split: _written(of_split) for split, of_split in days.items()} == {"train": train, "eval": evaluation}


@given(date=DAYS, train_days=st.integers(1, 100), eval_days=st.integers(1, 30))
def test_window_is_one_unbroken_run_of_days_that_ends_with_the_date(
    date: datetime.date, train_days: int, eval_days: int
) -> None:
    days = window(_logs(train_days, eval_days), date)
    assert (len(days["train"]), len(days["eval"])) == (train_days, eval_days)
    run = days["train"] + days["eval"]
    assert run[-1] == date
    assert all(later - earlier == ONE_DAY for earlier, later in itertools.pairwise(run))


def test_the_newest_train_days_are_validation_days() -> None:
    days = window(_logs(5, 1, validation_days=2), parse_day("2024-03-01"))
    assert list(days) == ["train", "validation", "eval"]
    assert _written(days["train"]) == ["2024-02-25", "2024-02-26", "2024-02-27"]
    assert _written(days["validation"]) == ["2024-02-28", "2024-02-29"]
    assert _written(days["eval"]) == ["2024-03-01"]


@given(date=DAYS)
def test_a_day_written_is_read_back(date: datetime.date) -> None:
    assert parse_day(date.isoformat()) == date
    assert parse_day(file_pattern("{YYYY}-{MM}-{DD}", date)) == date


@given(text=st.text(max_size=14))
def test_what_is_read_as_a_day_is_written_the_same(text: str) -> None:
    try:
        assert parse_day(text).isoformat() == text
    except ValueError as error:
        assert "write it as YYYY-MM-DD" in str(error)


@pytest.mark.parametrize(
    "text", ["", "2024-2-1", "20240201", "2023-02-29", "2024-01-01/..", " 2024-01-01", "yesterday"]
)
def test_anything_else_is_no_day(text: str) -> None:
    with pytest.raises(ValueError, match=rf"\(got {re.escape(repr(text))}\).*YYYY-MM-DD"):
        parse_day(text)


@given(date=DAYS)
@pytest.mark.parametrize(
    "pattern", ["{YYYY}-{MM}-{DD}/*.csv", "year={YYYY}/month={M}/day={D}/?[!x].csv", "{D}.{M}.{YYYY}/[ab]1.csv"]
)
def test_a_days_files_match_its_pattern_and_tell_the_day(pattern: str, date: datetime.date) -> None:
    path = file_pattern(pattern, date).replace("*", "a(1)").replace("?[!x]", "zy").replace("[ab]", "b")
    assert fnmatch.fnmatchcase(path, any_day(pattern))
    assert day_in(day_expression(pattern), path) == date


@pytest.mark.parametrize("path", ["2024/03/1", "2024/3/01", "2024/13/1", "2024/2/30", "2024/3/1/x", "24/3/1"])
def test_another_path_has_no_day(path: str) -> None:
    assert day_in(day_expression("{YYYY}/{M}/{D}"), path) is None


def test_file_pattern_pads_with_zeros() -> None:
    assert file_pattern("y={YYYY}/m={MM}/{DD}-*.csv", datetime.date(987, 6, 5)) == "y=0987/m=06/05-*.csv"
