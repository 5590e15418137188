"""Ingestion of joined logs: examples, counts, and what a changed source makes anew."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs
from tests.components.examples.sample_files import read_examples
from tests.components.logs.sample_logs import SUFFIX, run_executor, write
from tests.components.logs.sample_sources import DAYS, MIDNIGHT, logs, properties_of, write_logs
from tests.errors import place_and_value, tells

pytestmark = pytest.mark.slow


def ingest(logs: DayLogs, root: Path, uri: Path) -> Any:
    """Runs the executor; returns the Examples artifact."""
    return run_executor(properties_of(logs, root), uri)


def report_of(examples: Any) -> Any:
    from sangam.components.reports.artifact_files import read_ingestion

    return read_ingestion(examples.uri)


def folders(examples: Any) -> dict[str, str]:
    from sangam.components.examples.listing import read_listing

    return {str(day.day): day.folder for day in read_listing(examples.uri).days()}


def example(day: str, number: int) -> dict[str, list[Any]]:
    values = {
        "price": [number + 0.5],
        "tags": [f"t{number}".encode(), day.encode()],
        "hour": [number],
        "like": [int(number % 3 == 0)],
        "file": [number / 4],
        "at": [MIDNIGHT[day] + 3600 * number + 60],
    }
    return values


def test_examples_hold_what_was_known_at_their_time_and_labels_what_followed_within_the_window(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    write_logs(root)
    # A price that was set a minute after the last row of the first day was shown, and a like an hour too late.
    last = MIDNIGHT[DAYS[0]] + 23 * 3600 + 60
    write(
        root / "items" / DAYS[0] / "part-2.parquet",
        "parquet",
        [{"id": 23 % 5, "updated": last + 60, "price": 99.0, "labels": ["late"]}],
    )
    late = {"row": f"{DAYS[0]} 1", "post": 1, "time": last - 22 * 3600 + 3601, "what": "like", "day": 9.0}
    write(root / "likes" / DAYS[0] / "part-2.parquet", "parquet", [late])
    examples = ingest(logs(), root, tmp_path / "out")
    assert read_examples(examples.uri, "train") == [example(day, number) for day in DAYS[:2] for number in range(24)]
    assert read_examples(examples.uri, "eval") == [example(DAYS[2], number) for number in range(24)]
    report = report_of(examples)
    assert report.splits["train"].joined == {
        "items": {"rows with a version": 48},
        "likes": {
            "actions joined": 48,
            "actions more than 3600 s after the event": 1,
            "rows with actions": 48,
        },
    }
    assert report.splits["eval"].joined["likes"]["rows that may lack actions: days without files"] == 1
    assert not (tmp_path / "out" / "joined").exists()


def test_a_changed_source_makes_the_days_anew_that_read_it(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    write_logs(root)
    first = folders(ingest(logs(), root, tmp_path / "first"))
    assert folders(ingest(logs(), root, tmp_path / "again")) == first
    # The items of the second day are versions for the second day and the third, not for the first.
    path = root / "items" / DAYS[1] / "part-1.parquet"
    write(path, "parquet", [{"id": 9, "updated": MIDNIGHT[DAYS[1]], "price": 1.0, "labels": ["x"]}])
    second = folders(ingest(logs(), root, tmp_path / "second"))
    assert [first[day] == second[day] for day in DAYS] == [True, False, False]
    # The likes of the day after the last make the windows of the last day complete.
    like = {"row": "none", "post": 0, "time": MIDNIGHT["2024-03-02"], "what": "like", "day": 1.0}
    write(root / "likes/2024-03-02/part-0.parquet", "parquet", [like])
    examples = ingest(logs(), root, tmp_path / "third")
    assert [second[day] == folders(examples)[day] for day in DAYS] == [True, True, False]
    assert "rows that may lack actions: days without files" not in report_of(examples).splits["eval"].joined["likes"]
    # Another window is another join.
    assert not set(folders(ingest(logs(likes__window_s=60), root, tmp_path / "fourth")).values()) & set(second.values())


def test_a_day_that_is_ingested_alone_equals_the_same_day_among_others(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    write_logs(root)
    together = ingest(logs(), root, tmp_path / "together")
    values = {split: read_examples(together.uri, split) for split in ("train", "eval")}
    made = folders(together)
    (Path(made[DAYS[1]]).parent / "day.json").unlink()
    alone = ingest(logs(), root, tmp_path / "alone")
    assert [folders(alone)[day] == made[day] for day in DAYS] == [True, False, True]
    assert report_of(alone).splits == report_of(together).splits
    assert {split: read_examples(alone.uri, split) for split in values} == values


def test_rows_without_a_version_are_dropped_and_counted(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    write_logs(root)
    for part in range(2):
        (root / "items" / DAYS[0] / f"part-{part}.parquet").unlink()
    row = {"id": 3, "updated": MIDNIGHT[DAYS[0]], "price": 1.0, "labels": ["x"]}
    write(root / "items" / DAYS[0] / "part-0.parquet", "parquet", [row])
    tolerant = {"max_dropped_fraction": 0.9}
    examples = ingest(logs(items__missing="drop").model_copy(update=tolerant), root, tmp_path / "out")
    report = report_of(examples).splits["train"]
    assert report.dropped == {"no version in items": 19}
    assert [row["hour"] for row in read_examples(examples.uri, "train")[:6]] == [[3], [8], [13], [18], [23], [0]]
    with pytest.raises(UserError, match=place_and_value("data.max_dropped_fraction", "no version in items (19)")):
        ingest(logs(items__missing="drop"), root, tmp_path / "strict")


@pytest.mark.parametrize(
    ("path", "row", "column"),
    [
        ("shown", {"post": 1, "at": 0, "hour": 1}, "row"),
        ("likes", {"row": "a", "post": 1, "time": 0, "what": "like"}, "day"),
        ("items", {"id": "text", "updated": 0, "price": 1.0, "labels": ["x"]}, "id"),
    ],
)
def test_a_file_without_what_is_joined_is_named_before_anything_is_read(
    tmp_path: Path, path: str, row: dict[str, Any], column: str
) -> None:
    root = tmp_path / "logs"
    write_logs(root)
    file = write(root / path / DAYS[1] / "part-1.parquet", "parquet", [row])
    with pytest.raises(UserError, match=place_and_value(f"{file}: column '{column}'", "(got")):
        ingest(logs(), root, tmp_path / "out")


@pytest.mark.parametrize("format_name", ["parquet", "csv", "tfrecord"])
def test_a_column_of_both_the_main_log_and_a_source_is_refused(tmp_path: Path, format_name: str) -> None:
    # Which of both would a feature mean: the price that was logged with the row, or the one of the table?
    root, formats = tmp_path / "logs", (format_name, "parquet", "parquet")
    write_logs(root, formats)
    file = root / "shown" / DAYS[1] / f"part-1.{SUFFIX[format_name]}"
    row = {"row": "a", "post": 1, "at": MIDNIGHT[DAYS[1]], "hour": 1, "price": 0.5, "like": 1}
    write(file, format_name, [row])
    with pytest.raises(UserError) as caught:
        ingest(logs(formats), root, tmp_path / "out")
    like, price = str(caught.value).splitlines()
    assert tells(like, f"{file}: column 'like'", "'likes' ... data.sources.likes.columns")
    assert tells(price, f"{file}: column 'price'", "'items' ... data.sources.items.columns")
