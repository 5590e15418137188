"""A table's examples are those of the same rows by day; a table that has grown keeps the examples of its days."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.examples.listing import read_listing
from sangam.components.reports.artifact_files import read_ingestion
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec.data import TableLogs
from tests.components.examples.sample_files import read_examples
from tests.components.logs.sample_logs import INPUTS, ROWS, expected, run_executor
from tests.components.steps.example_gen.test_executor import properties

pytestmark = pytest.mark.slow

TABLE = TableLogs.model_validate(
    {
        "kind": "table",
        "format": "jsonl",
        "pattern": "rows.jsonl",
        "columns": {"shown": {"kind": "time", "zone": "Asia/Kolkata"}},
        "time": "shown",
        "zone": "Asia/Kolkata",
        "eval": {"days": 1},
    }
)
DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]


def _write(folder: Path, days: list[str]) -> None:
    """Writes a row of each day, at an hour of India at which it is another day in UTC."""
    folder.mkdir(exist_ok=True)
    rows = [{**row, "shown": f"{day} 03:00:00"} for row, day in zip(ROWS, days, strict=False)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _folders(examples: Any) -> dict[str | None, str]:
    return {day.day: day.folder for of_split in read_listing(examples.uri).splits.values() for day in of_split}


def test_a_table_that_grows_makes_the_examples_of_its_new_day_alone(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    _write(logs, DAYS[:2])
    first = run_executor(properties(TABLE, logs, date=DAYS[1]), tmp_path / "first")
    assert read_examples(first.uri, "eval") == [expected(ROWS[1], columns(INPUTS))]
    _write(logs, DAYS)
    second = run_executor(properties(TABLE, logs, date=DAYS[2]), tmp_path / "second")
    assert read_examples(second.uri, "train") == [expected(row, columns(INPUTS)) for row in ROWS[:2]]
    report = read_ingestion(second.uri)
    assert (report.days, report.missing_days) == ({"train": DAYS[:2], "eval": DAYS[2:]}, [])
    before, after = _folders(first), _folders(second)
    assert {day: after[day] for day in DAYS[:2]} == before
