"""The files of sources: which days are read, what may be absent, and what is part of the cache key."""

import datetime
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sangam.components.logs.files.digests import digests_of
from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import Files, absent_markers, changed_files, fingerprint, resolve
from sangam.schemas.errors import UserError
from tests.components.logs.sample_logs import day_logs
from tests.errors import place_and_value

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
DATE = DAYS[-1]

COMMON: dict[str, Any] = {"format": "parquet", "keys": {"post": {"type": "int"}}, "time": "at"}
LIKES = COMMON | {
    "kind": "actions",
    "pattern": "likes/{YYYY}-{MM}-{DD}/*.parquet",
    "window_s": 3600,
    "columns": {"like": {"take": "happened"}},
}
ITEMS = COMMON | {
    "kind": "table",
    "pattern": "items/{YYYY}-{MM}-{DD}/*.parquet",
    "max_age_days": 2,
    "columns": {"price": {}},
}


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def write_main(root: Path) -> None:
    touch(root, *(f"{day}/a.parquet" for day in DAYS))


def resolved(root: Path, sources: dict[str, Any], after: str = "", **settings: Any) -> Files:
    return resolve(day_logs(sources=sources, **settings), DATE, str(root), LocalStorage(), after=after)


def read(files: Files, name: str) -> list[str]:
    return [str(file.day) for file in files.sources if file.split == name]


def test_actions_are_read_to_the_end_of_the_window_and_versions_back_to_the_oldest(tmp_path: Path) -> None:
    write_main(tmp_path)
    days = ["2024-02-25", "2024-02-26", "2024-02-27", *DAYS, "2024-03-02", "2024-03-03"]
    touch(tmp_path, *(f"{name}/{day}/a.parquet" for name in ("likes", "items") for day in days))
    files = resolved(tmp_path, {"likes": LIKES, "items": ITEMS})
    assert read(files, "likes") == [*DAYS, "2024-03-02"]
    assert read(files, "items") == ["2024-02-26", "2024-02-27", *DAYS]
    # An incremental run joins the days that remain.
    files = resolved(tmp_path, {"likes": LIKES, "items": ITEMS}, after=DAYS[0])
    assert read(files, "likes") == [*DAYS[1:], "2024-03-02"]
    assert read(files, "items") == ["2024-02-27", *DAYS]


def test_a_day_that_a_window_reaches_into_must_have_files_unless_the_spec_counts(tmp_path: Path) -> None:
    write_main(tmp_path)
    touch(tmp_path, *(f"likes/{day}/a.parquet" for day in DAYS))
    with pytest.raises(
        UserError, match=place_and_value("data.sources.likes.pattern: ...", "(got none for 2024-03-02) ... incomplete")
    ):
        resolved(tmp_path, {"likes": LIKES})
    assert read(resolved(tmp_path, {"likes": LIKES | {"incomplete": "count"}}), "likes") == DAYS


def test_a_table_needs_files_in_the_days_before_each_event(tmp_path: Path) -> None:
    write_main(tmp_path)
    touch(tmp_path, "items/2024-02-27/a.parquet")
    with pytest.raises(
        UserError, match=place_and_value("data.sources.items.pattern: ...", f"(got none for {DATE}) ... max_age_days")
    ):
        resolved(tmp_path, {"items": ITEMS})
    assert read(resolved(tmp_path, {"items": ITEMS | {"max_age_days": 3}}), "items") == ["2024-02-27"]


@pytest.mark.parametrize("source", [LIKES | {"incomplete": "count"}, ITEMS])
def test_a_source_without_any_files_is_refused(tmp_path: Path, source: dict[str, Any]) -> None:
    write_main(tmp_path)
    with pytest.raises(UserError, match=place_and_value("data.sources.one.pattern: ...", "(got none from 2024-02-2")):
        resolved(tmp_path, {"one": source})


def test_a_day_of_a_source_without_its_marker_has_no_files(tmp_path: Path) -> None:
    write_main(tmp_path)
    touch(tmp_path, *(f"{day}/_SUCCESS" for day in DAYS))
    touch(tmp_path, *(f"items/{day}/a.parquet" for day in DAYS), f"items/{DAYS[0]}/_DONE")
    marked = ITEMS | {"marker": "items/{YYYY}-{MM}-{DD}/_DONE"}
    arrival = {"marker": "{YYYY}-{MM}-{DD}/_SUCCESS"}
    assert read(resolved(tmp_path, {"items": marked}, arrival=arrival), "items") == DAYS[:1]


def test_a_run_waits_for_the_markers_of_its_sources_too(tmp_path: Path) -> None:
    marked = ITEMS | {"marker": "items/{YYYY}-{MM}-{DD}/_DONE"}
    logs = day_logs(sources={"items": marked, "likes": LIKES}, arrival={"marker": "{YYYY}-{MM}-{DD}/_SUCCESS"})
    own, of_items = f"{DATE}/_SUCCESS", f"items/{DATE}/_DONE"

    def absent() -> list[str]:
        return absent_markers(logs, datetime.date.fromisoformat(DATE), str(tmp_path), LocalStorage())

    assert absent() == [f"{tmp_path}/{own}", f"{tmp_path}/{of_items}"]
    touch(tmp_path, own)
    assert absent() == [f"{tmp_path}/{of_items}"]
    touch(tmp_path, of_items)
    assert absent() == []


def test_the_fingerprint_and_the_watch_on_changes_cover_the_sources(tmp_path: Path) -> None:
    def digest(files: Files) -> str:
        return fingerprint(files, str(tmp_path), digests_of(files.all_files, str(tmp_path / "root"), opened))

    def opened(path: str) -> BinaryIO:
        return open(path, "rb")

    write_main(tmp_path)
    touch(tmp_path, *(f"items/{day}/a.parquet" for day in DAYS))
    before = resolved(tmp_path, {"items": ITEMS})
    first = digest(before)
    assert digest(resolved(tmp_path, {})) != first
    (tmp_path / "items" / DAYS[0] / "a.parquet").write_bytes(b"changed")
    after = resolved(tmp_path, {"items": ITEMS})
    assert digest(after) != first
    [change] = changed_files(before, after)
    assert change == f"{tmp_path}/items/{DAYS[0]}/a.parquet: was changed (got 1 bytes, then 7)"


def test_actions_may_come_while_a_run_reads_to_the_day_after_its_date_alone(tmp_path: Path) -> None:
    write_main(tmp_path)
    touch(tmp_path, *(f"likes/{day}/a.parquet" for day in [*DAYS, "2024-03-02"]))
    before = resolved(tmp_path, {"likes": LIKES})
    touch(tmp_path, "likes/2024-03-02/b.parquet")
    assert changed_files(before, resolved(tmp_path, {"likes": LIKES})) == []
    touch(tmp_path, f"likes/{DATE}/b.parquet")
    [change] = changed_files(before, resolved(tmp_path, {"likes": LIKES}))
    assert change == f"{tmp_path}/likes/{DATE}/b.parquet: was added"


def test_two_sources_may_read_the_same_files(tmp_path: Path) -> None:
    write_main(tmp_path)
    touch(tmp_path, *(f"likes/{day}/a.parquet" for day in [*DAYS, "2024-03-02"]))
    files = resolved(tmp_path, {"likes": LIKES, "shares": LIKES})
    assert (len(files.sources), len(files.all_files)) == (8, 7)
