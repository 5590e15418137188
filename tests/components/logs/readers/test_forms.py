"""Columns in the forms that `data.columns` declares, in every format; the types that writers give to columns."""

import datetime
import decimal
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from sangam.components.logs.readers import formats, one_mark
from sangam.components.logs.readers.forms import numbers_of
from sangam.components.logs.readers.one_mark import OneMark
from sangam.components.logs.rows.conversion import convert
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import TableLogs
from sangam.schemas.spec.forms import Form
from tests.errors import place_and_value, tells

_TYPE: Any = Form
_FORM: TypeAdapter[Any] = TypeAdapter(_TYPE)
_NOON = 1_709_294_400
"""2024-03-01 12:00 in UTC."""


def _read(path: Path, read: list[Column], **fields: Any) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """Returns the values of one file's only batch, and the counts of those treated as missing."""
    document = {"kind": "table", "pattern": path.name, "eval": {"fraction": 0.1}, "format": path.suffix[1:], **fields}
    logs = TableLogs.model_validate_json(json.dumps(document))
    with path.open("rb") as file:
        assert not formats.inspect(logs, file, str(path), read).problems
        file.seek(0)
        [rows] = formats.read(logs, file, str(path), read)
    found = convert(rows.batch, read, str(path))
    return found.batch.to_pydict(), dict(found.ignored)


@pytest.mark.parametrize(
    ("form", "values", "seconds"),
    [
        ({}, pa.array([_NOON * 1000, None], pa.timestamp("ms")), [_NOON, None]),
        ({"zone": "Asia/Kolkata"}, pa.array([_NOON * 10**9], pa.timestamp("ns")), [_NOON - 19_800]),
        ({"zone": "Asia/Kolkata"}, pa.array([_NOON * 10**6], pa.timestamp("us", "Asia/Kolkata")), [_NOON]),
        ({}, pa.array([-1], pa.timestamp("us")), [-1]),
        ({}, pa.array([datetime.date(2024, 3, 1)]), [_NOON - 43_200]),
        ({}, pa.array([datetime.date(1969, 12, 31)], pa.date64()), [-86_400]),
        ({"unit": "us"}, pa.array([_NOON * 10**6 + 999_999, -1]), [_NOON, -1]),
        ({"unit": "s"}, pa.array([_NOON + 0.9, np.nan]), [_NOON, None]),
        ({"unit": "ms"}, pa.array([f"{_NOON}000", ""]), [_NOON, None]),
        ({}, pa.array(["2024-03-01T12:00:00Z", "2024-03-01T13:30:00+01:30"]), [_NOON, _NOON]),
        ({"zone": "Europe/London"}, pa.array(["2024-03-01", b"2024-03-01 12:00:00.7"]), [_NOON - 43_200, _NOON]),
        ({"format": "%d.%m.%y %H:%M"}, pa.array(["01.03.24 12:00", None]), [_NOON, None]),
        ({}, pa.array(["2024-03-01", None]).dictionary_encode(), [_NOON - 43_200, None]),
    ],
)
def test_times_become_seconds(form: dict[str, Any], values: pa.Array, seconds: list[int | None]) -> None:
    assert numbers_of(values, _FORM.validate_python({"kind": "time", **form}), "x").to_pylist() == seconds


def test_a_time_that_clocks_show_twice_is_the_first_and_one_that_they_skip_the_moment_of_the_change() -> None:
    form = _FORM.validate_python({"kind": "time", "zone": "Europe/Berlin"})
    seconds = numbers_of(pa.array(["2024-10-27 02:30:00", "2024-03-31 02:30:00"]), form, "x").to_pylist()
    # 00:30 and 01:00 in UTC.
    assert seconds == [1_729_989_000, 1_711_846_800]


@pytest.mark.parametrize(
    ("form", "values", "numbers"),
    [
        ({"kind": "codes", "values": {"yes": 1, "no": 0}}, pa.array(["no", "yes", "", None]), [0, 1, None, None]),
        ({"kind": "codes", "values": {"true": 1, "false": 0}}, pa.array([True, False, None]), [1, 0, None]),
        ({"kind": "codes", "values": {"1": 1, "-1": 0}}, pa.array([-1.0, 1.0, np.nan]), [0, 1, None]),
        ({"kind": "codes", "values": {"low": 0.5, "high": 2}}, pa.array(["high", "low"]), [2.0, 0.5]),
        ({"kind": "threshold", "at_least": 4}, pa.array([3.5, 4.0, np.nan]), [0, 1, None]),
        ({"kind": "threshold", "at_least": 4}, pa.array(["5", "1"]), [1, 0]),
        ({"kind": "threshold", "at_least": 2}, pa.array([decimal.Decimal("2.5")]), [1]),
        ({"kind": "number", "thousands": "."}, pa.array(["1.234,5", "-7", " 8,0 "]), [1234.5, -7.0, 8.0]),
        ({"kind": "number", "decimal": ".", "thousands": ","}, pa.array(["1,234.5"]), [1234.5]),
    ],
)
def test_codes_thresholds_and_written_numbers(form: dict[str, Any], values: pa.Array, numbers: list[Any]) -> None:
    assert numbers_of(values, _FORM.validate_python(form), "x").to_pylist() == numbers


@pytest.mark.parametrize(
    ("form", "values", "value"),
    [
        ({"kind": "codes", "values": {"yes": 1}}, pa.array(["yes", "maybe"]), "(got 'maybe') ... yes"),
        ({"kind": "number"}, pa.array(["1,5", "1.5"]), "(got '1.5')"),
        ({"kind": "time"}, pa.array(["2024-03-01", "1 March"]), "(got '1 March') ... format"),
        ({"kind": "time", "format": "%d/%m/%Y"}, pa.array(["31/13/2024"]), "(got '31/13/2024')"),
        ({"kind": "time"}, pa.array([1, 2]), "(got int64) ... unit"),
        ({"kind": "time"}, pa.array(["2024-03-01T12:00:00", "2024-03-01T12:00:00Z"]), "some times have a zone"),
        ({"kind": "threshold", "at_least": 1}, pa.array([True]), "(got bool) ... numbers"),
        ({"kind": "codes", "values": {"a": 1}}, pa.array([b"\xff"]), "not UTF-8"),
    ],
)
def test_a_value_of_another_form_is_told(form: dict[str, Any], values: pa.Array, value: str) -> None:
    with pytest.raises(UserError, match=place_and_value("f: column 'x'", value)):
        numbers_of(values, _FORM.validate_python(form), "f: column 'x'")


FORMS = {"at": {"kind": "time"}, "y": {"kind": "codes", "values": {"yes": 1, "no": 0}}}
COLUMNS = [
    Column("at", "int", time="event", is_required=False),
    Column("user", "string", is_required=False, is_id=True),
    Column("x", "float", is_required=False),
    Column("y", "int", is_binary=True, is_label=True, is_required=False),
]


def test_the_same_rows_have_the_same_values_and_counts_in_every_format(tmp_path: Path) -> None:
    table = pa.table(
        {
            "at": ["2024-03-01 12:00:00", None, "2024-03-02"],
            "user": ["ann", "", None],
            "x": [1.5, None, 0.0],
            "y": ["yes", "no", None],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    pacsv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text("".join(f"{row}\n" for row in map(_json, table.to_pylist())))
    results = [_read(tmp_path / f"a.{name}", COLUMNS, columns=FORMS) for name in ("parquet", "csv", "jsonl")]
    assert results[0][0]["user"] == [[b"ann"], None, None]
    assert results[0][0]["at"] == [[_NOON], None, [_NOON + 43_200]]
    assert results[0] == results[1] == results[2]


def _json(row: dict[str, Any]) -> str:
    # A null may be written, or its key left out.
    return json.dumps({name: value for name, value in row.items() if value is not None or name == "x"})


@pytest.mark.parametrize(
    ("array", "column", "values"),
    [
        (pa.array(["a", None], pa.large_string()), Column("c", "string", is_required=False), [[b"a"], None]),
        (pa.array(["a", None]).dictionary_encode(), Column("c", "string", is_required=False), [[b"a"], None]),
        (pa.array([1, 2], pa.uint64()), Column("c", "int"), [[1], [2]]),
        (pa.array([True, None]), Column("c", "int", is_binary=True, is_required=False), [[1], None]),
        (pa.array([np.float16(1.5)], pa.float16()), Column("c", "float"), [[1.5]]),
        (pa.array([decimal.Decimal("1.25")]), Column("c", "float"), [[1.25]]),
        (pa.array([[1, 2], None], pa.large_list(pa.int32())), Column("c", "int", is_list=True), [[1, 2], []]),
        (pa.array([[0.5, 1.0]], pa.list_(pa.float32(), 2)), Column("c", "float", is_list=True, length=2), [[0.5, 1.0]]),
    ],
    ids=["large_string", "dictionary", "uint64", "nullable bool", "half float", "decimal", "large_list", "fixed list"],
)
def test_the_types_of_other_writers_are_read(
    tmp_path: Path, array: pa.Array, column: Column, values: list[Any]
) -> None:
    pq.write_table(pa.table({"c": array}), tmp_path / "a.parquet")
    assert _read(tmp_path / "a.parquet", [column])[0]["c"] == values


def test_old_timestamps_of_spark_are_times(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([_NOON * 10**9], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert _read(tmp_path / "a.parquet", COLUMNS[:1], columns={"at": {"kind": "time"}})[0]["at"] == [[_NOON]]


def test_fields_of_structs_are_columns(tmp_path: Path) -> None:
    rows = [
        {"user": {"id": "u1", "home": {"city": "Pune"}}, "items": [{"id": 1}, {"id": 2}]},
        {"user": None, "items": []},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    columns = [
        Column("items.element.id", "int", is_list=True, is_required=False),
        Column("user.home.city", "string", is_required=False),
        Column("user.id", "string", is_required=False),
    ]
    values, _ = _read(tmp_path / "a.parquet", columns)
    assert values == {"items.element.id": [[1, 2], []], "user.home.city": [[b"Pune"], None], "user.id": [[b"u1"], None]}


@pytest.mark.parametrize(
    ("path", "told"),
    [("user.nam", "(got user.at, user.id)"), ("n.id", "(got n)"), ("items.idd", "(got items.id)"), ("m.x", "(got m)")],
)
def test_a_path_without_a_field_is_seen_before_the_run(tmp_path: Path, path: str, told: str) -> None:
    table = pa.table(
        {
            "user": [{"id": 1, "at": 2}],
            "n": [1],
            "items": [[{"id": 1}]],
            "m": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    document = {"kind": "table", "pattern": "a.parquet", "eval": {"fraction": 0.1}, "format": "parquet"}
    with (tmp_path / "a.parquet").open("rb") as file:
        wanted = [Column(path, "int", is_required=False)]
        [problem] = formats.inspect(TableLogs.model_validate(document), file, "a.parquet", wanted).problems
    assert tells(problem, f"a.parquet: column '{path}'", told)


def test_a_path_that_no_object_of_json_has_is_absent_and_one_without_values_is_not(tmp_path: Path) -> None:
    lines = [{"user": {"id": None}, "items": [{"id": 1}, {}]}, {"user": {}, "a.b": 1}]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    paths = ["user.id", "user.nam", "items.id", "items.idd", "a.b", "other"]
    document = {"kind": "table", "pattern": "a.jsonl", "eval": {"fraction": 0.1}, "format": "jsonl"}
    wanted = [Column(path, "int", is_list=path.startswith("items"), is_required=False) for path in paths]
    with (tmp_path / "a.jsonl").open("rb") as file:
        [rows] = formats.read(TableLogs.model_validate(document), file, "a.jsonl", wanted)
    assert rows.absent == {"user.nam", "items.idd", "other"}


@pytest.mark.parametrize(
    ("content", "dialect", "values"),
    [
        ("1::2::3\n4::5::6\n", {"separator": "::", "header": ["a", "b", "c"]}, [[2], [5]]),
        ("a|b\n1|2\n", {"separator": "|"}, [[2]]),
        ("a\tb\n1\tNA\n", {"separator": "\t", "missing": ["NA"]}, [None]),
        ("\ufeffa;b\r\n1;2\r\n", {"separator": ";"}, [[2]]),
    ],
)
def test_dialects_of_csv(tmp_path: Path, content: str, dialect: dict[str, Any], values: list[Any]) -> None:
    (tmp_path / "a.csv").write_bytes(content.encode())
    assert _read(tmp_path / "a.csv", [Column("b", "int", is_required=False)], csv=dialect)[0]["b"] == values


def test_a_separator_of_two_characters_may_lie_at_the_end_of_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"aa::b:c::d:"
    for size in range(1, 12):
        monkeypatch.setattr(one_mark, "_PIECE_BYTES", size)
        file = OneMark(io.BytesIO(content), b"::")
        pieces = iter(lambda file=file, size=size: file.read(size), b"")  # type: ignore[misc]
        assert b"".join(pieces) == content.replace(b"::", OneMark.MARK)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("[1]", "is one JSON array (got b'[1]'"),
        ("{", "line 1: is not JSON"),
        ("1", "line 1: is not an object"),
        ('{"b": "x"}', "line 1: column 'b': not an int (got \"x\")"),
    ],
)
def test_a_line_that_is_no_object_of_the_columns_is_told(tmp_path: Path, line: str, value: str) -> None:
    (tmp_path / "a.jsonl").write_text(line + "\n")
    logs = TableLogs.model_validate({"kind": "table", "pattern": "a", "eval": {"fraction": 0.1}, "format": "jsonl"})
    column = [Column("b", "int")]
    with (tmp_path / "a.jsonl").open("rb") as file, pytest.raises(UserError, match=r"a\.jsonl") as told:
        list(formats.read(logs, file, str(tmp_path / "a.jsonl"), column))
    assert value in str(told.value)
