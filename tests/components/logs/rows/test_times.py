"""Times outside their day are counted and clipped; a column in another unit stops the run and is told its unit."""

import datetime
from typing import Any

import pyarrow as pa
import pytest

from sangam.components.logs.files.listing import FileFacts
from sangam.components.logs.files.resolve import DataFile, Files
from sangam.components.logs.rows.conversion import Converted, convert
from sangam.components.logs.rows.counts import FileCounts, summed
from sangam.components.logs.rows.limits import limits_of
from sangam.components.reports.ingestion import IngestionReport
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import Logs, SplitLogs
from tests.components.logs.sample_logs import day_logs

DATE, DAY = "2024-03-01", "2024-02-29"
"""Of the run, and of the rows."""
AT = Column("at", "int", time="event")
BORN = Column("born", "int", is_required=False, time="other")
FACTS = FileFacts(size_bytes=1, mtime_ns=1)


def second(text: str) -> int:
    return int(datetime.datetime.fromisoformat(f"{text}+00:00").timestamp())


NOON = second("2024-02-29T12:00:00")


def converted(column: Column, values: list[int | None], logs: Logs | None = None) -> Converted:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], [column.name])
    return convert(batch, [column], "file", limits=limits_of(logs or day_logs(), DAY))


def judged(column: Column, values: list[int | None], logs: Logs | None = None) -> IngestionReport:
    logs = logs or day_logs()
    found = converted(column, values, logs)
    files = Files(DATE, ("train",), (DataFile("logs/a", "train", DAY, FACTS),))
    counts = FileCounts(
        split="train",
        path="logs/a",
        rows_read=len(values),
        rows_written=found.batch.num_rows,
        dropped=dict(found.dropped),
        ignored=dict(found.ignored),
        times=dict(found.times),
        columns=[column.name],
    )
    return summed(files, [counts], logs, [column])


def many(*others: int | None, of: int = NOON) -> list[int | None]:
    return [of] * (1000 - len(others)) + list(others)


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("milliseconds", 10**3),
        ("microseconds", 10**6),
        ("nanoseconds", 10**9),
        ("minutes", 1 / 60),
        ("hours", 1 / 3600),
        ("days", 1 / 86_400),
    ],
)
@pytest.mark.parametrize("column", [AT, BORN], ids=["event", "other"])
def test_a_column_in_another_unit_stops_the_run_and_the_unit_is_named(column: Column, unit: str, factor: float) -> None:
    logged = int(NOON * factor) if factor < 1 else NOON * int(factor)
    text = rf"^split 'train', for example logs/a: column '{column.name}': .*1000 of 1000 .*\(got {logged}\)"
    with pytest.raises(UserError, match=rf"{text}.* {unit}: .*seconds since 1970$"):
        judged(column, many(of=logged))


def test_times_of_logs_without_days_have_a_range_too() -> None:
    document = {"kind": "splits", "format": "parquet", "splits": {"train": "a", "eval": "b"}}
    logs = SplitLogs.model_validate(document)
    assert judged(AT, many(), logs).splits["train"].ignored == {}
    with pytest.raises(UserError, match=r"1990-01-01 to 2100-01-01 .*milliseconds"):
        judged(AT, many(of=NOON * 1000), logs)
    narrower = SplitLogs.model_validate(document | {"times": {"latest": "2010-12-31"}})
    with pytest.raises(UserError, match=r"1000 of 1000 .*1990-01-01 to 2010-12-31"):
        judged(AT, many(), narrower)


def test_a_few_times_outside_their_day_are_clipped_and_counted() -> None:
    first, last = second("2024-02-28T00:00:00"), second("2024-03-01T23:59:59")
    values = [first - 1, first, last, last + 1, -5, NOON * 1000, None]
    found = converted(AT, values)
    assert found.batch.column(0).to_pylist() == [[first], [first], [last], [last], [first], [last], None]
    assert found.ignored == {
        "time clipped: at before its day": 2,
        "time clipped: at after its day": 2,
    }
    assert judged(AT, many(-5, 2**40)).splits["train"].ignored == {
        "time clipped: at before its day": 1,
        "time clipped: at after its day": 1,
    }


def test_rows_may_be_dropped_instead() -> None:
    logs = day_logs(times={"outside": "drop"})
    found = converted(AT, [NOON, -5, None, 2**60], logs)
    assert found.batch.column(0).to_pylist() == [[NOON], None]
    assert found.rows.tolist() == [0, 2]
    assert found.dropped == {"time outside its range: at": 2}
    assert judged(AT, many(-5), logs).splits["train"].written == 999


def test_more_times_outside_than_declared_stop_the_run() -> None:
    eleven = [NOON - 40 * 86_400] * 11
    text = (
        r"column 'at': 11 of 1000 times are outside the day of their logs and 1 more on each side .*; "
        r"at most 0.01 of them may: correct"
    )
    with pytest.raises(UserError, match=text):
        judged(AT, many(*eleven))
    judged(AT, many(*eleven), day_logs(times={"max_outside_fraction": 0.02}))
    judged(AT, many(*eleven), day_logs(times={"tolerance_days": 40}))
    with pytest.raises(UserError, match=r"column 'at': 1 of 1000 times"):
        judged(AT, many(-1), day_logs(times={"max_outside_fraction": 0}))


def test_times_that_are_not_the_events_own_may_be_long_past_or_to_come() -> None:
    values: list[Any] = [second("1931-05-01T00:00:00"), second("2031-01-01T00:00:00"), 0, None, NOON]
    found = converted(BORN, values)
    assert found.batch.column(0).to_pylist() == [None if value is None else [value] for value in values]
    assert judged(BORN, many(*[0] * 999)).splits["train"].ignored == {}
    assert judged(BORN, many(-(2**62))).splits["train"].ignored == {"time clipped: born before 1900-01-01": 1}


def test_a_window_at_the_end_of_the_calendar_has_a_range() -> None:
    first, last = (limits_of(day_logs(), day).times["event"] for day in ("0001-01-01", "9999-12-31"))
    assert (str(first.first), str(first.last)) == ("0001-01-01", "0001-01-02")
    assert (str(last.first), str(last.last)) == ("9999-12-30", "9999-12-31")


def _events(times: list[list[int | None]], logs: Logs | None = None) -> Converted:
    ids = Column("ids", "int", is_list=True, is_required=False)
    listed = Column("times", "int", is_list=True, is_required=False, time="other", beside=("ids",), not_after="at")
    arrays = [pa.array([list(range(len(each))) for each in times]), pa.array(times, pa.list_(pa.int64()))]
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array([NOON] * len(times))], ["ids", "times", "at"])
    return convert(batch, [ids, listed, AT], "file", limits=limits_of(logs or day_logs(), DAY))


def test_events_later_than_their_row_are_counted() -> None:
    found = _events([[NOON - 1, NOON], [], [NOON + 1, None]])
    assert found.batch.column(1).to_pylist() == [[NOON - 1, NOON], [], [NOON + 1]]
    assert found.ignored == {"later than 'at', so of age 0: times": 1, "null in list: times": 1}


def test_times_of_events_are_clipped_or_their_events_left_out() -> None:
    dropped = _events([[-(10**12), 7], [NOON]], day_logs(times={"outside": "drop"}))
    assert dropped.batch.column(0).to_pylist() == [[1], [0]]
    assert dropped.ignored == {"time outside its range: times": 1}
    assert dropped.times["times"].outside == 1
    clipped = _events([[-(10**12), 7], [NOON]])
    assert clipped.batch.column(1).to_pylist() == [[second("1900-01-01T00:00:00"), 7], [NOON]]
    assert clipped.ignored == {"time clipped: times before 1900-01-01": 1}
