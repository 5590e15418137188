"""Each seeded fault of a server is found in its column alone, and named; without a fault there are no differences."""

import datetime
import zoneinfo

import numpy as np
import pytest

from sangam.components.skew.comparing import Offline, compare
from sangam.schemas.errors import UserError
from tests.components.skew.sample_skew import (
    AGES_S,
    COLUMNS,
    EARLIER,
    HOUR_S,
    KEYS,
    LATER,
    NOW_S,
    at_rows,
    each,
    faulty,
    moved,
    offline,
    table,
)
from tests.errors import place_and_value

IS_DEFAULT = np.arange(len(AGES_S)) % 9 == 0


def _berlin(at_s: int) -> int:
    local = datetime.datetime.fromtimestamp(at_s, zoneinfo.ZoneInfo("Europe/Berlin")).replace(tzinfo=datetime.UTC)
    return int(local.timestamp())


FAULTS = [
    (
        "length_ms",
        each(lambda ms: ms // 1000),
        "unit",
        "0.001 times the value of the logs, as milliseconds for seconds, reversed",
    ),
    ("length_ms", each(lambda ms: ms * 1000), "unit", "1000 times"),
    ("score", each(lambda share: share * 100), "unit", "percent"),
    ("score", each(lambda share: share * 2.54), "unit", "2.54 times"),
    ("vector", each(lambda vector: [value * 100 for value in vector]), "unit", "percent"),
    ("views", lambda _: COLUMNS["likes"], "swapped column", "'likes'"),
    ("likes", at_rows(AGES_S < 2 * HOUR_S, EARLIER), "stale table", f"{2 * HOUR_S - 60} s"),
    ("likes", lambda _: EARLIER, "older version of a join", "1 before"),
    ("likes", at_rows(np.arange(len(AGES_S)) % 3 == 0, EARLIER), "older version of a join", "1 before"),
    ("likes", lambda _: LATER, "newer version of a join", "after"),
    ("published", each(lambda at_s: at_s - 19_800), "time zone", "-5.5 hours"),
    ("published", each(lambda at_s: _berlin(at_s)), "time zone", "+2 hours"),
    ("hour", each(lambda hour: (hour + 9) % 24), "time zone", "+9 hours"),
    ("score", at_rows(IS_DEFAULT, [None] * len(IS_DEFAULT)), "default in place of a value", "no value"),
    ("score", at_rows(IS_DEFAULT, [0.5] * len(IS_DEFAULT)), "default in place of a value", "always 0.5"),
    ("user", lambda values: ["unknown"] * len(values), "default in place of a value", "'unknown'"),
    ("price", lambda values: [3.5 if value is None else value for value in values], "value in place of a default", ""),
    ("tags", at_rows(IS_DEFAULT, [[]] * len(IS_DEFAULT)), "default in place of a value", "no value"),
    ("is_new", moved, "candidates in another order", ""),
    ("length_ms", moved, "candidates in another order", ""),
    ("user", each(str.lower), "case", "'User é0'"),
    ("user", each(lambda user: f" {user}\n"), "white space", ""),
    ("user", each(lambda user: user.encode().decode("latin-1")), "encoding", "Ã©"),
    ("user", each(lambda user: user[:7]), "cut text", ""),
    ("tags", each(lambda tags: tags[:2]), "cut list", "without its end, 2 values"),
    ("tags", each(lambda tags: tags[-2:]), "cut list", "without its start, 2 values"),
    ("tags", each(lambda tags: tags[::-1]), "reversed list", ""),
    ("tags", each(sorted), "order of list", ""),
    ("tags", each(lambda tags: [tag.upper() for tag in tags]), "case", "'T"),
    ("score", each(lambda share: float(np.float16(share))), "rounded", "of the value"),
    ("score", each(lambda share: round(share, 2)), "rounded", "to 0.01"),
    ("score", each(lambda share: share**2 + 0.1), "other", ""),
]


@pytest.mark.parametrize(("column", "fault", "kind", "detail"), FAULTS)
def test_a_fault_is_named(column: str, fault: object, kind: str, detail: str) -> None:
    found = compare(faulty(**{column: fault}), offline(), KEYS)  # type: ignore[arg-type]
    assert (found.rows, found.unmatched) == (len(AGES_S), 0)
    first, *others = found.columns
    assert first == found.worst
    assert (first.column, [other.different for other in others]) == (column, [0] * len(others))
    assert first.cause
    assert (first.cause.kind, first.cause.share > 0.9) == (kind, kind != "other")
    assert detail in first.cause.detail


def test_without_a_fault_nothing_differs_in_any_order_of_the_rows() -> None:
    rows = offline()
    order = np.random.default_rng(1).permutation(len(AGES_S))
    found = compare(faulty().take(order), rows, KEYS)
    assert {column.column: (column.compared, column.different) for column in found.columns} == {
        name: (len(AGES_S), 0) for name in COLUMNS if name not in KEYS
    }


def test_floats_are_equal_as_the_model_reads_them() -> None:
    as_read = faulty(
        score=each(lambda share: float(np.float32(share))), price=lambda values: [v or np.nan for v in values]
    )
    assert all(not column.different for column in compare(as_read, offline(), KEYS).columns)


def test_an_example_has_the_keys_and_both_values() -> None:
    found = compare(faulty(price=at_rows(np.arange(len(AGES_S)) == 8, [None] * len(AGES_S))), offline(), KEYS)
    [example] = found.columns[0].examples
    assert example.model_dump() == {
        "keys": {"request_id": "r2", "post": COLUMNS["post"][8]},
        "served": None,
        "offline": 10 + 8 / 3,
    }
    assert found.columns[0].share == 1 / len(AGES_S)


def test_a_declared_default_is_known_even_of_few_values() -> None:
    zeros = faulty(is_new=lambda values: [0] * len(values))
    assert _kind(compare(zeros, offline(), KEYS)) != "default in place of a value"
    assert _kind(compare(zeros, offline(), KEYS, {"is_new": 0})) == "default in place of a value"
    ones = faulty(is_new=lambda values: [1] * len(values))
    assert _kind(compare(ones, offline(), KEYS, {"is_new": 0})) == "value in place of a default"


def test_a_table_as_of_one_time_is_stale_whatever_the_ages() -> None:
    rows = offline()
    at_s = NOW_S + np.random.default_rng(2).permutation(len(AGES_S)) * 600.0
    versions = rows.versions["likes"]
    since_s = at_s - AGES_S
    moved_on = Offline(rows.rows, {"likes": type(versions)(versions.earlier, versions.later, since_s, at_s)})
    served = faulty(likes=at_rows(since_s > np.median(since_s), EARLIER))
    assert _kind(compare(served, moved_on, KEYS)) == "stale table"


def test_rows_that_the_logs_lack_are_counted_and_two_of_one_key_refused() -> None:
    rows = table(COLUMNS)
    found = compare(rows, Offline(rows.slice(5)), KEYS)
    assert (found.unmatched, found.columns[0].compared) == (5, len(AGES_S) - 5)
    assert compare(rows, Offline(rows.slice(0, 0)), KEYS).unmatched == len(AGES_S)
    with pytest.raises(UserError, match=place_and_value("logs", "request_id 'r0'")):
        compare(rows, Offline(rows), ["request_id"])


def _kind(found: object) -> str:
    return found.columns[0].cause.kind  # type: ignore[attr-defined,no-any-return]
