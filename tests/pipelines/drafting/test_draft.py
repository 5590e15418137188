"""Whole drafts: of every format, of the demo's logs and of real data; and the command around them."""

import datetime
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from sangam.pipelines.cli import app, main
from sangam.pipelines.drafting import draft
from sangam.pipelines.drafting.layout import layout_of
from sangam.pipelines.drafting.reading import read_piece
from sangam.pipelines.drafting.sample import read_sample
from sangam.pipelines.provenance import VERSION
from sangam.pipelines.synthetic import generate
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.loading.editors import editor_schema_text
from sangam.schemas.spec.data import CsvDialect
from sangam.schemas.spec.features import CountFeature, CrossFeature, Feature, MatchFeature
from sangam.schemas.spec.patterns import FileFormat
from tests.errors import place_and_value, tells
from tests.object_stores import Bucket
from tests.paths import REPOSITORY, SHARED_DATA
from tests.pipelines.command_line import sangam
from tests.pipelines.drafting.sample_logs import (
    CLICKED,
    DAYS,
    ROWS,
    ROWS_OF_DAY,
    USERS,
    drafted,
    left_out,
    spec_of,
    valid,
    write_days,
)

pytestmark = pytest.mark.slow

COLUMNS: dict[str, Any] = {
    "user_id": USERS,
    "clicked": CLICKED,
    "item_id": np.arange(ROWS) % 70,
    "price": np.linspace(0, 1, ROWS),
    "tags": [["a", "b"][: number % 3] for number in range(ROWS)],
}


def init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


@pytest.mark.parametrize("file_format", ["parquet", "csv", "jsonl"])
def test_logs_on_an_object_store_get_the_draft_of_those_on_a_disk(
    bucket: Bucket, tmp_path: Path, file_format: FileFormat
) -> None:
    logs = write_days(tmp_path / "logs", COLUMNS, file_format)
    uri = bucket.upload(logs, "some/logs")
    bucket.put("some/logs/_temporary/rows.avro")
    stored = draft(f"{uri}/", "small", ["clicked"])
    assert stored.data == uri
    assert stored.text == draft(logs, "small", ["clicked"]).text


def test_a_single_file_on_an_object_store_is_a_table_and_the_printed_run_has_its_folder(
    bucket: Bucket, tmp_path: Path
) -> None:
    rows = "".join(f"{number % 2},{number % 7}\n" for number in range(200))
    bucket.put("some/clicks.csv", f"clicked,item_id\n{rows}".encode())
    made = init(f"{bucket.uri}/some/clicks.csv", "--output", str(tmp_path / "spec.yaml"))
    assert made.exit_code == 0, made.output
    assert f"--data {bucket.uri}/some --root runs" in made.output
    assert load_spec(tmp_path / "spec.yaml").data.kind == "table"
    missing = init("s3://no-such-bucket/logs", "--output", str(tmp_path / "other.yaml"))
    assert isinstance(missing.exception, UserError)
    assert tells(str(missing.exception), "s3://no-such-bucket/logs...", "NO_SUCH_BUCKET")


@pytest.mark.parametrize(
    "file_format",
    [pytest.param(name, marks=pytest.mark.slow if name == "tfrecord" else ()) for name in get_args(FileFormat)],
)
def test_every_format_has_a_draft(tmp_path: Path, file_format: FileFormat) -> None:
    document, made = drafted(tmp_path, COLUMNS, file_format=file_format)
    kinds = {name: feature["kind"] for name, feature in document["features"].items()}
    assert kinds == {"user": "id", "item": "id", "price": "numeric", "tags": "ids"}
    assert document["data"]["format"] == file_format
    assert document["data"].get("list_separator") == ("|" if file_format == "csv" else None)
    # A later cell of CSV may hold more than digits.
    assert document["features"]["item"]["type"] == ("string" if file_format == "csv" else "int")
    assert str(made.newest_day) == "2024-03-04"
    assert (document["data"]["train_days"], document["data"]["eval_days"]) == (3, 1)


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_folders_with_the_values_of_a_column_are_a_column(tmp_path: Path, file_format: FileFormat) -> None:
    folder = write_days(tmp_path / "logs", {"user_id": USERS, "clicked": CLICKED}, file_format)
    for number, day in enumerate(sorted(folder.iterdir())):
        for file in list(day.iterdir()):
            (day / f"country={'IU'[number % 2]}").mkdir()
            file.rename(day / f"country={'IU'[number % 2]}" / file.name)
    made = draft(folder, "small", ["clicked"])
    document = valid(made)
    assert document["data"]["pattern"] == f"{{YYYY}}-{{MM}}-{{DD}}/country=*/*.{file_format}"
    assert document["features"]["country"] == {"kind": "id", "type": "string", "table": "country"}


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_a_column_of_views_is_one_of_texts(tmp_path: Path, kind: pa.DataType) -> None:
    document, _ = drafted(tmp_path, {"clicked": CLICKED, "item": pa.array(USERS).cast(kind)})
    assert document["features"]["item"]["type"] == "string"


def test_days_without_files_are_skipped(tmp_path: Path) -> None:
    logs = write_days(tmp_path, COLUMNS)
    (logs / "2024-03-02").rename(logs / "2024-02-20")
    document = valid(draft(logs, "small", []))
    assert document["data"]["train_days"] == 13
    assert document["data"]["missing_days"] == "skip"


def test_a_sample_is_bounded_and_spread_from_the_first_day_to_the_last(tmp_path: Path) -> None:
    logs = write_days(tmp_path, COLUMNS)
    sample = read_sample(logs, layout_of(logs), max_rows=100)
    assert sample.num_rows == 100
    assert len(set(sample.day_starts)) == DAYS
    assert sample.num_rows_of_logs == ROWS
    assert not sample.is_whole
    # The footers say that nothing is missing, although most rows were not read.
    assert {"user_id", "clicked", "price"} <= sample.complete


@pytest.mark.parametrize("file_format", ["parquet", pytest.param("tfrecord", marks=pytest.mark.slow)])
def test_long_rows_end_a_sample_by_their_bytes(tmp_path: Path, file_format: FileFormat) -> None:
    columns = {"user_id": USERS, "clicked": CLICKED, "text": ["x" * 1000] * ROWS}
    logs = write_days(tmp_path, columns, file_format)
    [file] = (logs / "2024-03-01").glob("part-*")
    piece = read_piece(file, file_format, max_rows=10**6, max_bytes=10_000, dialect=CsvDialect())
    assert piece.table.num_rows < ROWS_OF_DAY
    assert not piece.is_whole


def test_each_left_out_column_is_taken_in_by_removing_one_mark(tmp_path: Path) -> None:
    columns = COLUMNS | {
        "request_id": [f"r{number}" for number in range(ROWS)],
        "session_id": np.arange(ROWS),
        "is_on": ["yes"] * ROWS,
        "sample_weight": np.linspace(0, 1, ROWS),
        "bought": CLICKED,
    }
    _, made = drafted(tmp_path, columns, ["clicked"])
    left_out = [each for each in made.guesses.left_out if each.settings]
    assert {each.column for each in left_out} == {"request_id", "session_id", "is_on", "sample_weight", "bought"}
    text = made.text
    for each in left_out:
        for table in filter(None, (each.settings.get("table"),)):
            text = text.replace(f"  # {table}: {{dim", f"  {table}: {{dim")
        assert f"\n  # {each.name}: {{" in text
        text = text.replace(f"\n  # {each.name}: {{", f"\n  {each.name}: {{")
    document = valid(replace(made, text=text))
    assert {each.name for each in left_out} <= set(document["features"])


def test_what_was_not_read_of_csv_may_be_missing(tmp_path: Path) -> None:
    logs = write_days(tmp_path, COLUMNS, "csv")
    sample = read_sample(logs, layout_of(logs), max_rows=100)
    assert sample.complete == frozenset()
    assert abs(sample.num_rows_of_logs - ROWS) < ROWS / 10


def test_a_column_that_some_days_lack_is_left_out(tmp_path: Path) -> None:
    logs = write_days(tmp_path, COLUMNS)
    file = logs / "2024-03-01" / "part-00000.parquet"
    pq.write_table(pq.read_table(file).drop(["price"]), file)
    made = draft(logs, "small", [])
    assert "price" not in valid(made)["features"]
    assert "2024-03-01/part-00000.parquet" in left_out(made)["price"]


def test_two_logs_in_a_folder_are_told(tmp_path: Path) -> None:
    logs = write_days(tmp_path, COLUMNS)
    pq.write_table(pa.table({"item_id": [1], "title": ["x"]}), logs / "2024-03-02" / "items.parquet")
    with pytest.raises(UserError, match=place_and_value(str(logs), "title, user_id")):
        draft(logs, "small", [])


@pytest.mark.parametrize("name", ["part-00000.parquet", "part-00000.csv", "part-00000.tfrecord"])
def test_an_unreadable_file_is_told(tmp_path: Path, name: str) -> None:
    for day in ("2024-03-01", "2024-03-02"):
        (tmp_path / day).mkdir()
        (tmp_path / day / name).write_bytes(b'a,b\n"1\n' if name.endswith("csv") else b"nothing of the kind")
    with pytest.raises(UserError, match=str(tmp_path / "2024-03-01" / name)):
        draft(tmp_path, "small", [])


def test_logs_without_rows_are_told(tmp_path: Path) -> None:
    for day in ("2024-03-01", "2024-03-02"):
        (tmp_path / day).mkdir()
        pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / day / "a.parquet")
    with pytest.raises(UserError, match=place_and_value(str(tmp_path), "2 files without rows")):
        draft(tmp_path, "small", [])


def test_the_command_prints_guesses_and_the_next_commands(tmp_path: Path) -> None:
    logs, output = write_days(tmp_path / "my logs", COLUMNS), tmp_path / "feed.yaml"
    done = init(str(logs), "--output", str(output))
    assert done.exit_code == 0, done.output
    assert load_spec(output).name == "feed"
    *_, validate, run = done.stdout.splitlines()
    assert validate == f"  sangam validate {output}"
    assert run == f"  sangam run {output} --date 2024-03-04 --data '{logs}' --root runs"
    assert "2,000 rows, all of them, in 4 of 4 files" in done.stdout
    assert all(column in done.stdout for column in COLUMNS)


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", rb"\u7528\u6237"), ("utf-8", "用户".encode())])
def test_names_that_the_output_cannot_encode_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, shown: bytes
) -> None:
    logs, written = write_days(tmp_path / "logs", COLUMNS | {"用户": some_texts()}), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    monkeypatch.setattr(sys, "argv", ["sangam", "init", str(logs), "--output", str(tmp_path / "spec.yaml")])
    for name in ("no_proxy", "NO_PROXY"):  # Set by the entry point.
        monkeypatch.setenv(name, "")
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.flush()
    assert ended.value.code == 0
    assert shown in written.getvalue()


def some_texts() -> list[str]:
    return [["köln", "zürich"][number % 2] for number in range(ROWS)]


def test_runs_are_kept_out_of_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = write_days(tmp_path / "logs", COLUMNS)
    monkeypatch.chdir(logs)
    done = init(".", "--output", "../spec.yaml")
    assert done.stdout.splitlines()[-1] == (
        f"  sangam run ../spec.yaml --date 2024-03-04 --data . --root {tmp_path / 'runs'}"
    )


def test_the_command_replaces_a_file_only_by_force(tmp_path: Path) -> None:
    logs, output = write_days(tmp_path / "logs", COLUMNS), tmp_path / "spec.yaml"
    output.write_text("mine")
    done = init(str(logs), "--output", str(output))
    assert tells(str(done.exception), "--output", f"(got {output})")
    assert output.read_text() == "mine"
    told = json.loads(init(str(logs), "--output", str(output), "--force", "--json").stdout)
    assert (told["output"], [each["column"] for each in told["labels"]]) == (str(output), ["clicked"])
    assert load_spec(output).name == "logs"


def test_the_schema_for_editors_lies_beside_the_draft_and_is_not_taken_for_logs(tmp_path: Path) -> None:
    logs = write_days(tmp_path, COLUMNS, "jsonl")
    first, second = logs / "2024-03-01" / "first.yaml", logs / "2024-03-01" / "second.yaml"
    for output in (first, second):
        told = json.loads(init(str(first.parent), "--output", str(output), "--name", "small", "--json").stdout)
    assert told["read"] == "500 rows, all of them, in 1 of 1 files"
    assert first.read_text() == second.read_text()
    line, _ = first.read_text().split("\n", 1)
    assert line == "# yaml-language-server: $schema=.sangam.schema.json"
    assert told["schema"] == str(first.parent / ".sangam.schema.json")
    assert Path(told["schema"]).read_text() == editor_schema_text(VERSION)


def test_without_a_label_nothing_is_written_and_the_code_is_that_of_a_mistake(tmp_path: Path) -> None:
    logs = write_days(tmp_path / "logs", {"user_id": USERS, "price": np.linspace(0, 1, ROWS)})
    output = tmp_path / "spec.yaml"
    done = sangam("init", str(logs), "--output", str(output))
    assert done.returncode == 2
    assert tells(done.stderr, "--label", "price, user_id")
    assert not output.exists()


def test_the_demos_logs_are_drafted_as_a_person_would(tmp_path: Path) -> None:
    first = datetime.date(2024, 3, 1)
    generate(tmp_path, first_day=first, num_days=3, rows_per_day=1000, num_users=100, num_posts=200, seed=1)
    _require_as_plain(valid(draft(tmp_path, "small", [])), "plain_feed")


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("folder", "labels", "plain"),
    [
        ("online_retail/lines", ["reorder", "bulk", "high_value"], "plain_online_retail"),
        ("census_income/all_features", ["income", "never_married"], "plain_census_all_features"),
        ("census_income/nominal", ["income", "never_married"], "plain_census_nominal"),
    ],
)
def test_real_data_is_drafted_as_a_person_would(folder: str, labels: list[str], plain: str) -> None:
    if not SHARED_DATA.exists():
        pytest.skip(f"needs the real data beside the checkout, in {SHARED_DATA}")
    _require_as_plain(valid(draft(SHARED_DATA / folder, "small", labels)), plain)


def _require_as_plain(document: dict[str, Any], plain: str) -> None:
    """Compares kinds, types and tasks with those of a spec that a person has written."""
    written = load_spec(REPOSITORY / "bench" / "quality" / "specs" / f"{plain}.yaml")
    expected, found = (_kinds(each.features) for each in (written, spec_of(document)))
    # The papers on this data leave it out.
    found.pop("education", None)
    assert found == expected
    assert list(document["tasks"]) == list(written.tasks)


def _kinds(features: Mapping[str, Feature]) -> dict[str, tuple[str, str]]:
    """Returns kind and type of the features of one column, by column."""
    return {
        getattr(feature, "column", None) or name: (feature.kind, getattr(feature, "type", ""))
        for name, feature in features.items()
        if not isinstance(feature, CountFeature | CrossFeature | MatchFeature)
    }
