"""Once a day at a time, UTC: when that is, and what cron calls it."""

import datetime
from pathlib import Path

import pytest

from sangam.pipelines.times import check_time, cron_at, date_of, last_due, machine_time, next_due, time_of
from sangam.schemas.errors import UserError

ZONES = Path("/usr/share/zoneinfo")


def utc(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize("at", ["00:00", "02:05", "23:59"])
def test_times_go_to_cron_and_back(at: str) -> None:
    assert time_of(cron_at(check_time(at))) == at


@pytest.mark.parametrize(
    "at", ["24:00", "2:00", "02:60", "02:00:00", "", "-1:00", "02:30\n", "02:30; rm", "0\u0662:00"]
)
def test_other_texts_are_no_times(at: str) -> None:
    with pytest.raises(UserError, match="--at: "):
        check_time(at)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2024-02-28 02:04:59", "2024-02-28 02:05"),
        ("2024-02-28 02:05:00", "2024-02-29 02:05"),
        ("2024-02-29 23:59:59", "2024-03-01 02:05"),
        ("2024-12-31 12:00:00", "2025-01-01 02:05"),
    ],
)
def test_the_next_time_is_later_than_now_and_the_last_a_day_before_it(now: str, due: str) -> None:
    assert next_due("02:05", utc(now)) == utc(due)
    assert last_due("02:05", utc(now)) == utc(due) - datetime.timedelta(days=1)


def test_date_and_start_go_by_utc_whatever_the_clock_of_whoever_asks() -> None:
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    # 01:00 on 1 March in Tokyo is 16:00 on 29 February in UTC.
    now = datetime.datetime(2024, 3, 1, 1, 0, tzinfo=tokyo)
    assert date_of(now) == datetime.date(2024, 2, 28)
    assert next_due("02:05", now) == utc("2024-03-01 02:05")
    assert date_of(utc("2024-03-01 00:00")) == datetime.date(2024, 2, 29)
    assert date_of(utc("2024-03-01 23:59")) == datetime.date(2024, 2, 29)


@pytest.mark.parametrize(
    ("zone", "local"), [("UTC", "02:05"), ("Asia/Kolkata", "07:35"), ("Etc/GMT+5", "21:05"), ("Asia/Tokyo", "11:05")]
)
def test_a_time_on_the_clock_of_the_machine(zone: str, local: str) -> None:
    assert machine_time("02:05", 2024, ZONES / zone) == local


@pytest.mark.parametrize(
    ("zone", "here"),
    [
        ("Europe/Berlin", "03:05 and 04:05"),
        ("Australia/Lord_Howe", "12:35 and 13:05"),
        ("Africa/Casablanca", "02:05 and 03:05"),
    ],
)
def test_a_clock_that_changes_with_the_season_is_no_clock_for_cron(tmp_path: Path, zone: str, here: str) -> None:
    with pytest.raises(UserError) as caught:
        machine_time("02:05", 2024, ZONES / zone)
    assert f"(got 02:05 UTC, {here} here)" in str(caught.value)
    assert machine_time("02:05", 2024, tmp_path / "none") == "02:05"
