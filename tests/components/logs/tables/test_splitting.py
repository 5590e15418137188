"""The part of a row: its day in a zone, or the split that its time or a hash determines."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.logs.tables.splitting import Keys, days_of, parts_of
from sangam.schemas.spec.data import TableLogs

_DAY_S = 86_400


def _table(**fields: Any) -> TableLogs:
    return TableLogs.model_validate({"kind": "table", "format": "csv", "pattern": "a.csv", **fields})


def _keys(times: Any = None, values: Any = None, first_row: int = 0, number: int = 1000) -> Keys:
    return Keys(
        None if times is None else np.asarray(times, np.int64),
        None if values is None else pa.array(values, pa.binary()),
        first_row,
        "a.csv",
        number if times is None else len(times),
    )


def _parts(table: TableLogs, keys: Keys) -> list[str]:
    assert keys.times is None or len(keys.times)
    return [str(part) for part in parts_of(table, lambda: keys.times)(keys)]  # type: ignore[return-value, arg-type]


@pytest.mark.parametrize(
    ("zone", "days"), [("UTC", ["1970-01-01", "1970-01-02"]), ("Asia/Kolkata", ["1970-01-02", "1970-01-02"])]
)
def test_the_day_of_a_row_is_that_of_its_time_in_the_zone(zone: str, days: list[str]) -> None:
    table = _table(time="t", zone=zone, eval={"days": 1})
    assert _parts(table, _keys([20 * 3600, 25 * 3600])) == days


def test_days_follow_the_clock_across_its_change() -> None:
    # Berlin's clocks went forward at 2024-03-31 01:00 UTC: the day had 23 hours.
    begin = 1_711_839_600
    times = np.array([begin - 1, begin, begin + 23 * 3600 - 1, begin + 23 * 3600])
    assert np.diff(days_of(times, "Europe/Berlin")).tolist() == [1, 0, 1]


def test_a_share_by_time_is_the_newest_and_equal_times_stay_together() -> None:
    times = [*range(90), *[100] * 10]
    parts = _parts(_table(time="t", eval={"fraction": 0.05}, validation={"fraction": 0.1}), _keys(times))
    assert parts == ["train"] * 81 + ["validation"] * 9 + ["eval"] * 10


def test_rows_after_a_day_are_evaluated_on() -> None:
    table = _table(time="t", eval={"after": "1970-01-02"})
    assert _parts(table, _keys([0, 2 * _DAY_S - 1, 2 * _DAY_S])) == ["train", "train", "eval"]


def test_rows_of_one_value_are_on_one_side_for_any_batches() -> None:
    table = _table(by="user", eval={"fraction": 0.2}, validation={"fraction": 0.25})
    users = [b"u%d" % (number % 400) for number in range(2000)]
    parts = _parts(table, _keys(values=users, number=2000))
    in_pieces = _parts(table, _keys(values=users[:700], number=700)) + _parts(
        table, _keys(values=users[700:], first_row=700, number=1300)
    )
    assert parts == in_pieces
    assert all(parts[number] == parts[number % 400] for number in range(2000))
    shares = {part: parts[:400].count(part) / 400 for part in ("train", "validation", "eval")}
    assert shares == pytest.approx({"train": 0.6, "validation": 0.2, "eval": 0.2}, abs=0.06)


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.string(), pa.large_string(), pa.int64(), pa.int32(), pa.dictionary(pa.int32(), pa.string())],
)
def test_a_value_has_one_part_whatever_type_a_file_gives_it(kind: pa.DataType) -> None:
    table = _table(by="user", eval={"fraction": 0.5})
    texts = [str(number).encode() for number in range(100)]
    numbers = pa.array(range(100))
    values = numbers.cast(kind) if pa.types.is_integer(kind) else numbers.cast(pa.string())
    if pa.types.is_dictionary(kind):
        values = values.dictionary_encode()
    elif not pa.types.is_integer(kind):
        values = values.cast(kind)
    parts = parts_of(table, lambda: np.zeros(0, np.int64))
    of_texts = parts(_keys(values=texts, number=100))
    assert parts(Keys(None, values, 0, "a.csv", 100)).tolist() == of_texts.tolist()
    assert set(of_texts) == {"train", "eval"}


def test_rows_without_a_value_are_drawn_by_their_place() -> None:
    table = _table(eval={"fraction": 0.3})
    parts = _parts(table, _keys(number=2000))
    assert parts.count("eval") / 2000 == pytest.approx(0.3, abs=0.04)
    # A file that grows keeps the parts of its rows.
    assert _parts(table, _keys(first_row=500, number=1500)) == parts[500:]
