"""What a spec says of the logs that are joined: where a column comes from, keys, times, and leaks that it refuses."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.sources import columns_of_log, columns_of_source, days_read
from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from sangam.schemas.spec.data import DayLogs
from tests.errors import tells
from tests.schemas.sample_specs import REMOVED, changed, loaded, write

LIKES = {
    "kind": "actions",
    "pattern": "actions/{YYYY}-{MM}-{DD}/*.parquet",
    "format": "parquet",
    "keys": {"request": {"type": "string"}},
    "time": "at",
    "window_s": 3600,
    "columns": {
        "like": {"take": "happened", "where": {"action": "like"}},
        "rating": {"take": "last", "column": "stars"},
    },
}
PEOPLE = {
    "kind": "table",
    "pattern": "people/{YYYY}{MM}{DD}.csv",
    "format": "csv",
    "keys": {"user_id": {"type": "string", "column": "id"}},
    "time": "updated",
    "max_age_days": 7,
    "columns": {"age": {}, "friend": {"column": "best_friend"}},
}
JOINED = {
    "event_time": "shown",
    "data.sources": {"likes": LIKES, "people": PEOPLE},
    "data.list_separator": "|",
}


def joined(changes: dict[str, Any]) -> dict[str, Any]:
    return JOINED | {f"data.sources.{path}" if "." in path else path: value for path, value in changes.items()}


# (changes of the sources, path of the problem, the value that it tells of)
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"likes.kind": "action"}, "data.sources.likes.kind", "(got 'action') ... 'actions', 'table'"),
    ({"likes.pattern": "a/*"}, "data.sources.likes.pattern", "(got 'a/*')"),
    ({"likes.keys": {}}, "data.sources.likes.keys", "(got a mapping of none)"),
    ({"likes.keys": {"request": {"type": "float"}}}, "data.sources.likes.keys.request.type", "(got 'float')"),
    ({"likes.time": REMOVED}, "data.sources.likes.time", "is missing"),
    ({"likes.window_s": 0}, "data.sources.likes.window_s", "(got 0)"),
    ({"likes.columns.like.take": "first"}, "data.sources.likes.columns.like.take", "(got 'first') ... 'happened'"),
    ({"likes.incomplete": "keep"}, "data.sources.likes.incomplete", "(got 'keep') ... 'refuse', 'count'"),
    ({"people.max_age_days": REMOVED}, "data.sources.people.max_age_days", "is missing"),
    ({"people.missing": "skip"}, "data.sources.people.missing", "(got 'skip') ... 'keep', 'drop'"),
    ({"event_time": None}, "data.sources", "(got no event_time)"),
    ({"event_time": "age"}, "data.sources.people.columns.age", "(got 'age')"),
    ({"people.columns.like": {}}, "data.sources.people.columns.like", "source 'likes' ... (got 'like')"),
    ({"people.columns.spare": {}}, "data.sources.people.columns.spare", "(got 'spare')"),
    ({"likes.columns.age": {"take": "max"}, "people.columns.age": REMOVED}, "features.age", "'likes' (got 'age')"),
    ({"people.keys": {"friend": {"type": "string"}}}, "data.sources.people.keys.friend", "'people' (got 'friend')"),
    ({"people.keys.user_id.type": "int"}, "data.sources.people.keys.user_id", "string ... (got type int)"),
    ({"people.keys": {"tags": {"type": "string"}}}, "data.sources.people.keys.tags", "list ... (got type string)"),
    ({"people.keys.request": {"type": "int"}}, "data.sources.people.keys.request", "string ... (got type int)"),
    ({"people.keys.other": {"type": "string", "column": "id"}}, "data.sources.people.keys", "(got id, id)"),
    ({"people.time": "id"}, "data.sources.people.time", "(got 'id')"),
    ({"people.columns.friend.column": "updated"}, "data.sources.people.columns.friend", "(got int, string)"),
    ({"likes.columns.like.where": {"at": "x"}}, "data.sources.likes.columns.like.where.at", "(got int, string)"),
    ({"likes.columns.like.column": "n"}, "data.sources.likes.columns.like.column", "(got 'n')"),
    (
        {"keys": {"note": {"type": "string"}}, "likes.columns.note": {"take": "last"}},
        "data.sources.likes.columns.note",
        "string (got take: last)",
    ),
    ({"people.marker": "people/{YYYY}{MM}{DD}.done"}, "data.sources.people.marker", "arrival"),
]


@pytest.mark.parametrize(("changes", "place", "value"), MISTAKES, ids=lambda value: str(value)[:70])
def test_mistake_is_told_with_its_place_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], place: str, value: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(joined(changes))))
    assert tells(str(caught.value), place, value), str(caught.value)


def test_logs_in_splits_have_no_sources(tmp_path: Path) -> None:
    splits = {"kind": "splits", "format": "parquet", "splits": {"train": "a", "eval": "b"}, "sources": {}}
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed({"data": splits})))
    assert tells(str(caught.value), "data.sources", "(got a mapping of none)")


def test_columns_are_read_from_where_they_are_declared(tmp_path: Path) -> None:
    spec = loaded(tmp_path, JOINED)
    assert isinstance(spec.data, DayLogs)
    read = columns(spec)
    assert [column.name for column in columns_of_log(spec.data, read)] == ["recent", "shown", "tags", "user_id"]
    likes, people = (columns_of_source(source, read) for source in spec.data.sources.values())
    assert {column.name: column.type for column in likes} == {
        "request": "string",
        "at": "int",
        "action": "string",
        "stars": "float",
    }
    assert {column.name: column.type for column in people} == {
        "id": "string",
        "updated": "int",
        "age": "float",
        "best_friend": "string",
    }


@pytest.mark.parametrize(("window_s", "offsets"), [(1, (0, 1)), (86_400, (0, 1)), (86_401, (0, 1, 2))])
def test_a_window_reaches_into_the_days_that_an_event_at_midnight_reaches(
    tmp_path: Path, window_s: int, offsets: tuple[int, ...]
) -> None:
    spec = loaded(tmp_path, joined({"likes.window_s": window_s, "people.max_age_days": 2}))
    assert isinstance(spec.data, DayLogs)
    day = datetime.date(2024, 2, 29)
    likes, people = (days_read(source, day) for source in spec.data.sources.values())
    assert [(each - day).days for each in likes] == list(offsets)
    assert [(each - day).days for each in people] == [-2, -1, 0]
