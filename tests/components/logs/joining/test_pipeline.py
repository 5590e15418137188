"""The join of files on Beam: from any format, back in the order of the main log, whatever the number of buckets."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import resolve
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs
from tests.components.logs.sample_logs import SUFFIX, write
from tests.components.logs.sample_sources import DAYS, MIDNIGHT, logs, request_of, write_logs
from tests.errors import place_and_value

pytestmark = pytest.mark.slow


def joined(logs: DayLogs, root: Path, folder: Path, num_buckets: int = 1) -> Any:
    """Runs the join; returns the counts by day, and a function that reads a file's joined rows."""
    import apache_beam as beam

    from sangam.components.logs.joining.joined_rows import JoinedRows
    from sangam.components.logs.joining.judged import counts_by_day, refuse_problems
    from sangam.components.logs.joining.pipeline import join
    from sangam.components.logs.joining.plan import plan_of
    from sangam.components.logs.readers.batches import Rows

    request = request_of(logs, root)
    files = resolve(logs, DAYS[-1], str(root), LocalStorage())
    plan = plan_of(logs, files.files, files.sources)
    plan = dataclasses.replace(plan, buckets={name: num_buckets for name in plan.buckets})
    run = join(lambda: beam.Pipeline(runner="FnApiRunner"), plan, request, str(folder))
    refuse_problems(run, request)

    def rows(path: Path, batch_rows: int) -> tuple[list[dict[str, Any]], list[bool]]:
        reading = JoinedRows(run.folder, str(path), logs)
        values, is_dropped = [], []
        for first in range(0, 12, batch_rows):
            number = min(batch_rows, 12 - first)
            plain = Rows(pa.RecordBatch.from_arrays([pa.array(np.arange(first, first + number))], ["row"]))
            added, dropped = reading.add(plain, first)
            values += added.batch.to_pylist()
            is_dropped += [bool(each) for mask in dropped.values() for each in mask]
        return values, is_dropped

    return counts_by_day(run), rows


def expected(day: str, part: int) -> list[dict[str, Any]]:
    return [
        {
            "row": number - 12 * part,
            "price": number + 0.5,
            "tags": [f"t{number}".encode(), day.encode()],
            "like": int(number % 3 == 0),
            "file": number / 4,
        }
        for number in range(12 * part, 12 * part + 12)
    ]


@pytest.mark.parametrize(
    ("formats", "num_buckets"),
    [(("parquet", "csv", "tfrecord"), 1), (("csv", "tfrecord", "parquet"), 3), (("tfrecord", "parquet", "csv"), 7)],
)
def test_files_of_all_formats_are_joined_in_the_order_of_the_main_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formats: tuple[str, str, str], num_buckets: int
) -> None:
    from sangam.components.logs.joining import joined_rows

    monkeypatch.setattr(joined_rows, "ROWS_PER_CHUNK", 5)
    write_logs(tmp_path / "logs", formats)
    counts, rows = joined(logs(formats), tmp_path / "logs", tmp_path / "joined", num_buckets)
    for day in DAYS:
        for part in range(2):
            path = tmp_path / "logs" / f"shown/{day}/part-{part}.{SUFFIX[formats[0]]}"
            for batch_rows in (12, 7):
                assert rows(path, batch_rows)[0] == expected(day, part)
    assert counts[DAYS[0]] == {
        "items": {"rows with a version": 24},
        "likes": {"rows with actions": 24, "actions joined": 24},
    }
    # The window of the last row of the last day reaches into a day that has no files yet.
    assert counts[DAYS[2]]["likes"]["rows that may lack actions: days without files"] == 1
    assert json.dumps(counts).count("lack") == 1


def test_a_row_without_a_version_is_dropped_if_the_spec_says_so(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    first = {"id": 0, "updated": MIDNIGHT[DAYS[0]] + 3600, "price": 1.0, "labels": ["x"]}
    write(tmp_path / "logs/items" / DAYS[0] / "part-0.parquet", "parquet", [first])
    counts, rows = joined(logs(items__missing="drop"), tmp_path / "logs", tmp_path / "joined")
    values, is_dropped = rows(tmp_path / "logs/shown" / DAYS[0] / "part-0.parquet", 12)
    # Post 0 was first seen at midnight, an hour before its version; posts 1 to 4 have none before noon.
    assert [not dropped for dropped in is_dropped] == [number in (5, 10) for number in range(12)]
    assert values[0]["price"] is None
    assert counts[DAYS[0]]["items"] == {
        "rows with a version": 2 + 12,
        "rows with later versions only": 10,
    }


def test_what_is_wrong_in_a_source_is_told_with_its_file(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    write_logs(root)
    bad = root / "likes" / DAYS[1] / "part-1.parquet"
    good = bad.read_bytes()
    bad.write_bytes(good[:40] + b"\0" * 40 + good[80:])
    with pytest.raises(UserError, match=place_and_value(str(bad), "damaged")):
        joined(logs(), root, tmp_path / "first")
    row = {"row": "a", "post": 1, "time": MIDNIGHT[DAYS[1]] * 1000, "what": "like", "day": 1.0}
    write(bad, "parquet", [row] * 10)
    with pytest.raises(UserError, match=place_and_value(f"data.sources.likes, for example {bad}", "milliseconds")):
        joined(logs(), root, tmp_path / "second")
