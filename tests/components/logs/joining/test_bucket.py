"""The vectorized joins equal plain ones, whatever is joined together; no row sees what was not known at its time."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sangam.components.logs.joining.bucket import IS_MATCHED, join_bucket
from sangam.components.logs.joining.keys import buckets
from sangam.components.logs.joining.sides import DAY, FILE, KEY, ROW, TIME, VALUE
from sangam.schemas.spec.sources import Actions, StateTable
from tests.components.logs.joining.plain_join import DAY_S, Row, actions_within, newest_version

EPOCH = 719_163
NOON = DAY_S // 2

COMMON: dict[str, Any] = {"pattern": "{YYYY}{MM}{DD}", "format": "parquet", "time": "at"}
KEYS = {"post": {"type": "int"}, "user": {"type": "string"}}
VALUES = {"n": pa.float64(), "what": pa.binary()}


def table(max_age_days: int = 1, **settings: Any) -> StateTable:
    columns = {"n": {}, "label": {"column": "what"}}
    return StateTable.model_validate(
        COMMON | {"kind": "table", "keys": KEYS, "max_age_days": max_age_days, "columns": columns} | settings
    )


def actions(window_s: int = 100, **settings: Any) -> Actions:
    takes = ("sum", "max", "last", "count", "happened")
    columns: dict[str, Any] = {take: {"take": take} for take in takes}
    columns |= {take: columns[take] | {"column": "n"} for take in takes[:3]}
    columns["liked"] = {"take": "happened", "where": {"what": "like"}}
    columns["like_n"] = {"take": "sum", "column": "n", "where": {"what": "like"}}
    return Actions.model_validate(
        COMMON | {"kind": "actions", "keys": KEYS, "window_s": window_s, "columns": columns} | settings
    )


def batch(rows: Sequence[Row], values: dict[str, pa.DataType] | None = None) -> pa.RecordBatch:
    """Returns rows as they are joined; a day is one file, rows are in its order."""
    in_file: Counter[int] = Counter()
    places = []
    for row in rows:
        places.append(in_file[row.day])
        in_file[row.day] += 1
    columns = {
        DAY: pa.array([row.day + EPOCH for row in rows], pa.int32()),
        FILE: pa.array([row.day for row in rows], pa.int32()),
        ROW: pa.array(places, pa.int64()),
        TIME: pa.array([row.time for row in rows], pa.int64()),
        f"{KEY}0": pa.array([row.key[0] for row in rows], pa.int64()),
        f"{KEY}1": pa.array([row.key[1] for row in rows], pa.binary()),
    }
    for index, (name, kind) in enumerate((values or {}).items()):
        columns[VALUE + name] = pa.array([row.values[index] for row in rows], kind)
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def joined(
    source: Actions | StateTable,
    rows: Sequence[Row],
    others: Sequence[Row],
    *,
    days: Sequence[int] | None = None,
    absent: Sequence[int] = (),
    num_buckets: int = 1,
) -> tuple[dict[tuple[int, int], dict[str, Any]], dict[int, Counter[str]]]:
    """Returns the joined values by day and row, and the counts by day."""
    days = sorted({row.day for row in rows}) if days is None else days
    sides = [batch([row for row in rows if row.day in days]), batch(others, VALUES)]
    in_bucket = [buckets([side.column(4), side.column(5)], num_buckets) for side in sides]
    values: dict[tuple[int, int], dict[str, Any]] = {}
    counts: dict[int, Counter[str]] = {day: Counter() for day in days}
    for bucket in range(num_buckets):
        parts = [
            side.take(pa.array(np.flatnonzero(numbers == bucket)))
            for side, numbers in zip(sides, in_bucket, strict=True)
        ]
        result = join_bucket(source, *parts, days=[day + EPOCH for day in days], absent=[day + EPOCH for day in absent])
        for each in result.batch.to_pylist() if result.batch else []:
            place = each.pop(FILE), each.pop(ROW)
            values[place] = {name.removeprefix(VALUE): value for name, value in each.items()}
        for day, of_day in result.counts.items():
            counts[day - EPOCH].update(of_day)
    return values, counts


def event(time: int | None, day: int | None = None, user: bytes | None = b"ann") -> Row:
    return Row((time or 0) // DAY_S if day is None else day, time, (7, user))


def version(time: int | None, what: str, day: int | None = None, user: bytes = b"ann") -> Row:
    return Row((time or 0) // DAY_S if day is None else day, time, (7, user), (1.0, what.encode()))


def action(time: int | None, n: float | None = 1.0, what: str = "like", day: int | None = None) -> Row:
    return Row((time or 0) // DAY_S if day is None else day, time, (7, b"ann"), (n, what.encode()))


def test_a_version_later_than_the_event_is_not_seen() -> None:
    # Joined by the key alone, the row would take the title that it got after the event.
    values, counts = joined(table(), [event(NOON)], [version(NOON - 5, "before"), version(NOON + 1, "after")])
    assert values[0, 0]["label"] == b"before"
    values, counts = joined(table(), [event(NOON)], [version(NOON + 1, "after")])
    assert values[0, 0] == {IS_MATCHED: False, "n": None, "label": None}
    assert counts[0] == {"rows with later versions only": 1}


def test_a_version_that_arrived_after_the_day_of_the_event_is_not_seen() -> None:
    # Its time is before the event, but the file of the next day was not there yet.
    late = version(NOON - 5, "corrected", day=1)
    values, _ = joined(table(2), [event(NOON), event(NOON + DAY_S)], [version(NOON - 9, "known"), late])
    assert [values[day, 0]["label"] for day in (0, 1)] == [b"known", b"corrected"]


def test_of_equal_times_a_version_counts_and_of_several_the_last_one_written() -> None:
    values, counts = joined(table(), [event(NOON)], [version(NOON, "first"), version(NOON, "last")])
    assert values[0, 0]["label"] == b"last"
    assert counts[0] == {"rows with a version": 1, "versions replaced by one of the same time": 1}


@pytest.mark.parametrize(("age", "is_matched"), [(DAY_S, True), (DAY_S + 1, False)])
def test_a_version_may_be_so_old_and_no_older(age: int, is_matched: bool) -> None:
    values, counts = joined(table(), [event(NOON + DAY_S)], [version(NOON + DAY_S - age, "old")])
    assert values[1, 0][IS_MATCHED] is is_matched
    assert counts[1] == {
        "rows with a version" if is_matched else "rows with versions older than 1 days only": 1,
    }


def test_rows_and_versions_without_a_key_or_a_time_have_no_match() -> None:
    rows = [event(NOON, user=None), event(None, day=0), event(NOON, user=b"eve")]
    values, counts = joined(table(), rows, [version(None, "x", day=0), version(5, "y")])
    assert [each[IS_MATCHED] for each in values.values()] == [False, False, False]
    assert counts[0] == {
        "rows without a key or a time": 2,
        "rows without a version": 1,
        "versions without a key or a time": 1,
    }


def test_a_window_holds_both_its_ends_and_reaches_into_the_next_day() -> None:
    evening = DAY_S - 50
    times = (evening - 1, evening, DAY_S + 50, DAY_S + 51)
    values, counts = joined(actions(), [event(evening)], [action(time, n) for n, time in enumerate(times)])
    assert {name: values[0, 0][name] for name in ("count", "sum", "max", "last")} == {
        "count": 2,
        "sum": 3,
        "max": 2,
        "last": 2,
    }
    # The action after the window is in the next day's file: it is counted there.
    assert counts[0] == {"rows with actions": 1, "actions joined": 2, "actions before the event": 1}


def test_every_action_that_is_left_out_is_counted() -> None:
    others = [action(10), action(10), action(10, 2.0), action(5), action(111), action(None, day=0)]
    others.append(Row(0, 10, (8, b"ann"), (1.0, b"like")))
    values, counts = joined(actions(), [event(10)], others)
    assert values[0, 0]["count"] == 2
    assert counts[0] == {
        "rows with actions": 1,
        "actions joined": 2,
        "actions repeated": 1,
        "actions before the event": 1,
        "actions more than 100 s after the event": 1,
        "actions without a key or a time": 1,
        "actions without an event on this day": 1,
    }


def test_rows_with_earlier_actions_only_are_counted() -> None:
    rows = [event(10), event(300), Row(0, 10, (8, b"bob"), ())]
    _, counts = joined(actions(), rows, [action(12), action(5)])
    assert counts[0]["rows with earlier actions only"] == 1
    assert counts[0]["rows without actions"] == 2


def test_without_actions_there_are_zeros_or_no_values() -> None:
    values, _ = joined(actions(), [event(10)], [action(10, what="hide", n=None), action(10, float("nan"), "hide")])
    assert values[0, 0] == {
        IS_MATCHED: True,
        **{"sum": 0, "max": None, "last": None, "count": 2, "happened": 1, "liked": 0, "like_n": 0},
    }
    assert joined(actions(), [event(10)], [])[1][0] == {"rows without actions": 1}


def test_each_event_of_equal_keys_has_its_own_window() -> None:
    values, _ = joined(
        actions(), [event(0), event(60), event(150)], [action(20, 1.0), action(70, 2.0), action(170, 4.0)]
    )
    assert [values[0, row]["sum"] for row in range(3)] == [3.0, 2.0, 4.0]


def test_rows_whose_window_reaches_into_a_day_without_files_are_counted() -> None:
    rows = [event(DAY_S - 101), event(DAY_S - 100), event(DAY_S - 1)]
    _, counts = joined(actions(), rows, [], absent=[1])
    assert counts[0] == {"rows without actions": 3, "rows that may lack actions: days without files": 2}


TIMES = st.none() | st.integers(0, 3 * DAY_S).map(lambda time: time // 4000 * 4000)
EVENTS = st.builds(
    Row, st.integers(0, 2), TIMES, st.tuples(st.sampled_from([1, 2, None]), st.sampled_from([b"a", b"", None]))
)
OTHERS = st.builds(
    Row,
    st.integers(-1, 4),
    TIMES,
    st.tuples(st.sampled_from([1, 2, None]), st.sampled_from([b"a", b"", None])),
    st.tuples(st.sampled_from([None, 0.5, -1.25, 3.0]), st.sampled_from([b"like", b"x", None])),
)


def by_place(rows: Sequence[Row]) -> dict[tuple[int, int], Row]:
    places: Counter[int] = Counter()
    result = {}
    for row in rows:
        result[row.day, places[row.day]] = row
        places[row.day] += 1
    return result


def in_files(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.day)


@settings(max_examples=30, deadline=None)
@given(st.lists(EVENTS, max_size=12), st.lists(OTHERS, max_size=25), st.integers(1, 3))
def test_versions_equal_a_plain_join(rows: list[Row], others: list[Row], max_age_days: int) -> None:
    values, _ = joined(table(max_age_days), rows, others)
    for place, row in by_place(rows).items():
        found = newest_version(row, in_files(others), max_age_days)
        expected = found.values if found else (None, None)
        assert (values[place]["n"], values[place]["label"]) == expected
        assert values[place][IS_MATCHED] is (found is not None)


@settings(max_examples=30, deadline=None)
@given(st.lists(EVENTS, max_size=12), st.lists(OTHERS, max_size=25), st.sampled_from([4000, 9000, 100_000]))
def test_actions_equal_a_plain_join(rows: list[Row], others: list[Row], window_s: int) -> None:
    values, _ = joined(actions(window_s), rows, others)
    for place, row in by_place(rows).items():
        found = actions_within(row, in_files(others), window_s)
        numbers = [each.values[0] for each in found if each.values[0] is not None]
        likes = [each.values[0] for each in found if each.values[1] == b"like"]
        assert values[place] == {
            IS_MATCHED: True,
            "sum": sum(numbers),
            "max": max(numbers, default=None),
            "last": numbers[-1] if numbers else None,
            "count": len(found),
            "happened": int(bool(found)),
            "liked": int(bool(likes)),
            "like_n": sum(number for number in likes if number is not None),
        }


@settings(max_examples=20, deadline=None)
@given(st.lists(EVENTS, max_size=12), st.lists(OTHERS, max_size=25), st.integers(2, 9))
def test_values_and_counts_depend_neither_on_buckets_nor_on_what_else_is_read(
    rows: list[Row], others: list[Row], num_buckets: int
) -> None:
    days = [0, 1, 2]
    for source in (table(2), actions(9000)):
        whole = joined(source, rows, others, days=days, absent=[3])
        assert joined(source, rows, others, days=days, absent=[3], num_buckets=num_buckets) == whole
        each = [joined(source, rows, others, days=[day], absent=[3]) for day in days]
        assert ({place: row for values, _ in each for place, row in values.items()}) == whole[0]
        assert {day: counts[day] for day, (_, counts) in enumerate(each)} == whole[1]
