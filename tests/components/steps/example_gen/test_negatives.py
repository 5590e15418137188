"""Ingestion of logs of positives only: sampled rows, their columns, counts, notes, and what makes days anew."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs, Logs, SplitLogs
from tests.components.examples.sample_files import read_examples
from tests.components.logs.sample_logs import SUFFIX, day_logs, run_executor, write
from tests.components.logs.sample_sources import MIDNIGHT
from tests.errors import place_and_value

pytestmark = pytest.mark.slow

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
INPUTS = Inputs.model_validate(
    {
        "features": {
            "user": {"kind": "id", "type": "string", "table": "users"},
            "item": {"kind": "id", "type": "int", "table": "items"},
            "price": {"kind": "numeric", "normalize": "none", "missing": 0},
            "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
            "hour": {"kind": "numeric", "normalize": "none", "type": "int"},
        },
        "tasks": {
            "bought": {"kind": "binary"},
            "stars": {"kind": "regression", "missing_label": "mask"},
        },
        "keys": {"purchase": {"type": "int"}},
        "event_time": "at",
    }
)
PARTS = ("tests.components.sample_parts",)
NEGATIVES = {
    "label": "bought",
    "item": "item",
    "user": "user",
    "item_columns": ("price", "tags"),
    "per_positive": 2,
    "judged_per_positive": 4,
    "list_column": "purchase",
}
Row = dict[str, Any]


def logs(format_name: str = "parquet", **negatives: Any) -> DayLogs:
    return day_logs(format_name, negatives=NEGATIVES | negatives)


def rows_of(day: str) -> list[Row]:
    """Returns a day's purchases: 12 users with two items of 8 each; the price of an item rises during the day."""
    return [
        {
            "user": f"u{user}",
            "item": (user + 3 * place) % 8,
            "price": (user + 3 * place) % 8 + 10 * DAYS.index(day) + user / 16,
            "tags": [f"t{(user + 3 * place) % 8}", day],
            "hour": user,
            "stars": user / 2,
            "at": MIDNIGHT[day] + 3600 * user + place,
        }
        for user in range(12)
        for place in range(2)
    ]


def ingest(declared: Logs, root: Path, uri: Path, inputs: Inputs = INPUTS) -> Any:
    properties = {
        "logs": declared.model_dump_json(),
        "inputs": inputs.inputs().model_dump_json(),
        "date": DAYS[2],
        "data_root": str(root),
        "name": "tiny",
        "mode": "full",
        "pipeline_root": str(root.parent / "root"),
        "code": "",
    }
    return run_executor(properties, uri)


def write_logs(root: Path, format_name: str = "parquet", parts: int = 1) -> None:
    for day in DAYS:
        rows = rows_of(day)
        for part in range(parts):
            share = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
            write(root / day / f"part-{part}.{SUFFIX[format_name]}", format_name, share)


def report_of(examples: Any) -> Any:
    from sangam.components.reports.artifact_files import read_ingestion

    return read_ingestion(examples.uri)


def folders(examples: Any) -> dict[str, str]:
    from sangam.components.examples.listing import read_listing

    return {str(day.day): day.folder for day in read_listing(examples.uri).days()}


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("negatives") / "logs"
    write_logs(root)
    return ingest(logs(), root, root.parent / "out")


@pytest.mark.parametrize(("split", "per_positive"), [("train", 2), ("eval", 4)])
def test_each_positive_is_followed_by_rows_with_other_items_of_the_day_and_their_newest_columns(
    ingested: Any, split: str, per_positive: int
) -> None:
    examples = read_examples(ingested.uri, split)
    days = DAYS[:2] if split == "train" else DAYS[2:]
    positives = [row for day in days for row in rows_of(day)]
    assert len(examples) == len(positives) * (1 + per_positive)
    for number, positive in enumerate(positives):
        first, *sampled = examples[number * (1 + per_positive) : (number + 1) * (1 + per_positive)]
        day = positive["tags"][1]
        assert (first["bought"], first["item"], first["price"]) == ([1], [positive["item"]], [positive["price"]])
        assert first["stars"] == [positive["stars"]]
        same_user = {row["item"] for row in rows_of(day) if row["user"] == positive["user"]}
        newest = {row["item"]: row for row in sorted(rows_of(day), key=lambda row: row["at"])}
        assert len({row["item"][0] for row in sampled}) == per_positive
        for row in sampled:
            assert row["bought"] == [0]
            assert "stars" not in row
            assert row["item"][0] not in same_user
            assert row["price"] == [newest[row["item"][0]]["price"]]
            assert row["tags"] == [tag.encode() for tag in newest[row["item"][0]]["tags"]]
            assert [row[name] for name in ("user", "hour", "at", "purchase")] == [
                first[name] for name in ("user", "hour", "at", "purchase")
            ]
    assert len({row["purchase"][0] for row in examples}) == len(positives)


def test_the_report_counts_sampled_rows_and_says_what_predictions_and_metrics_mean(ingested: Any) -> None:
    report = report_of(ingested)
    assert report.splits["train"].candidates == {
        "positives": 48,
        "positives without a candidate": 0,
        "sampled rows": 96,
    }
    assert (report.splits["train"].read, report.splits["train"].written) == (48, 144)
    assert report.splits["train"].written_of_logs == 48
    meaning, bias = report.notes
    assert "2 sampled rows in split 'train' and 4 in 'eval'" in meaning
    assert "Krichene and Rendle" in bias
    assert not (Path(ingested.uri) / "candidates").exists()


@pytest.mark.parametrize("format_name", ["csv", "tfrecord"])
def test_examples_are_the_same_from_other_formats_and_another_partition_into_files(
    ingested: Any, tmp_path: Path, format_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.steps.example_gen import file_groups

    monkeypatch.setattr(file_groups, "_ROWS_PER_GROUP", 5)
    write_logs(tmp_path / "logs", format_name, parts=3)
    examples = ingest(logs(format_name), tmp_path / "logs", tmp_path / "out")
    for split in ("train", "eval"):
        assert read_examples(examples.uri, split) == read_examples(ingested.uri, split)


def test_items_of_earlier_days_are_candidates_those_of_later_days_never_and_their_files_make_days_anew(
    tmp_path: Path,
) -> None:
    root = tmp_path / "logs"
    write_logs(root)
    old = [{**rows_of(DAYS[0])[0], "item": 50, "user": "x", "price": 0.5}]
    before = [{**row, "at": row["at"] - 86_400} for row in old]
    write(root / "2024-02-27" / "part-0.parquet", "parquet", before)
    declared = logs(days=3, judged_per_positive=100, per_positive=100)
    first = ingest(declared, root, tmp_path / "first")
    by_day: dict[int, set[int]] = {}
    for split in ("train", "eval"):
        for row in read_examples(first.uri, split):
            by_day.setdefault(row["at"][0] // 86_400, set()).add(row["item"][0])
    # 2024-02-27 is in the three days that end with each train day, and not in those of 2024-03-01.
    assert list(by_day.values()) == [{*range(8), 50}, {*range(8), 50}, set(range(8))]
    late = [{**rows_of(DAYS[1])[0], "item": 70, "user": "y"}]
    write(root / DAYS[1] / "part-1.parquet", "parquet", late)
    second = ingest(declared, root, tmp_path / "second")
    assert [folders(first)[day] == folders(second)[day] for day in DAYS] == [True, False, False]
    items = {row["item"][0] for row in read_examples(second.uri, "train") if row["at"][0] < MIDNIGHT[DAYS[1]]}
    assert 70 not in items


def test_item_columns_may_be_joined_from_a_table_and_are_those_of_the_items_newest_row(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    for day in DAYS:
        rows = [{name: row[name] for name in ("user", "item", "tags", "hour", "stars", "at")} for row in rows_of(day)]
        write(root / day / "part-0.parquet", "parquet", rows)
        # Item 7 has no version, and its rows are dropped.
        versions = [{"item": item, "from": MIDNIGHT[day] - 60, "price": item / 4} for item in range(7)]
        write(root / "items" / day / "part-0.parquet", "parquet", versions)
    items = {
        "kind": "table",
        "pattern": "items/{YYYY}-{MM}-{DD}/*.parquet",
        "format": "parquet",
        "keys": {"item": {"type": "int"}},
        "time": "from",
        "max_age_days": 1,
        "columns": {"price": {}},
        "missing": "drop",
    }
    declared = day_logs(negatives=NEGATIVES, sources={"items": items}, max_dropped_fraction=0.5)
    for row in read_examples(ingest(declared, root, tmp_path / "out").uri, "train"):
        assert row["price"] == [row["item"][0] / 4]
        assert row["item"] != [7]


@pytest.mark.parametrize("draw", ["popular", {"kind": "tempered", "power": 0.5}])
def test_candidates_of_a_named_split_are_its_items_also_with_a_sampler_of_others(tmp_path: Path, draw: Any) -> None:
    for split, day in (("train", DAYS[0]), ("eval", DAYS[2])):
        items = [{**row, "item": row["item"] + 100 * (split == "eval")} for row in rows_of(day)]
        write(tmp_path / "logs" / split / "part-0.parquet", "parquet", items)
    splits = {"train": "train/*.parquet", "eval": "eval/*.parquet"}
    inputs = Inputs.model_validate_json(INPUTS.model_copy(update={"parts": PARTS}).model_dump_json())
    declared = SplitLogs.model_validate(
        {"kind": "splits", "format": "parquet", "splits": splits, "negatives": NEGATIVES | {"draw": draw}}
    )
    examples = ingest(declared, tmp_path / "logs", tmp_path / "out", inputs)
    kind = draw if isinstance(draw, str) else draw["kind"]
    assert any(f"data.negatives.draw {kind}, scores say" in note for note in report_of(examples).notes)
    for split, first, per_positive in (("train", 0, 2), ("eval", 100, 4)):
        rows = read_examples(examples.uri, split)
        assert len(rows) == 24 * (1 + per_positive)
        assert {row["item"][0] for row in rows} == set(range(first, first + 8))


def test_a_column_of_the_item_that_is_not_declared_is_a_note(tmp_path: Path) -> None:
    for day in DAYS:
        rows = [{**row, "price": row["item"] / 2} for row in rows_of(day)]
        write(tmp_path / "logs" / day / "part-0.parquet", "parquet", rows)
    notes = report_of(ingest(logs(item_columns=("tags",)), tmp_path / "logs", tmp_path / "out")).notes
    assert [note for note in notes if "item_columns" in note and "'price'" in note] == notes[:1]


def test_a_changed_setting_makes_all_days_anew(ingested: Any, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    first = folders(ingest(logs(), tmp_path / "logs", tmp_path / "first"))
    second = folders(ingest(logs(seed=2), tmp_path / "logs", tmp_path / "second"))
    assert folders(ingest(logs(), tmp_path / "logs", tmp_path / "third")) == first
    assert not set(first.values()) & set(second.values())


def test_rows_without_a_user_are_dropped_and_counted(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    write(tmp_path / "logs" / DAYS[2] / "part-1.parquet", "parquet", [{**rows_of(DAYS[2])[0], "user": None}])
    declared = logs().model_copy(update={"max_dropped_fraction": 0.1})
    report = report_of(ingest(declared, tmp_path / "logs", tmp_path / "out"))
    assert report.splits["eval"].dropped == {"no user or item": 1}
    assert report.splits["eval"].candidates["positives"] == 24


@pytest.mark.parametrize("format_name", ["parquet", "tfrecord"])
def test_logs_that_have_the_label_are_refused(tmp_path: Path, format_name: str) -> None:
    for day in DAYS:
        path = tmp_path / "logs" / day / f"part-0.{SUFFIX[format_name]}"
        write(path, format_name, [{**row, "bought": 1} for row in rows_of(day)])
    with pytest.raises(UserError, match=place_and_value("column 'bought'", "(got it in the logs)")):
        ingest(logs(format_name), tmp_path / "logs", tmp_path / "out")
