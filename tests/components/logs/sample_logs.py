"""Small logs with everything that is easily lost: zeros, nulls, empty lists, negative numbers, letters of all kinds."""

import csv
import gzip
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
from tfx_bsl.coders.example_coder import RecordBatchToExamples

from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs
from tests.beam_args import BEAM_ARGS

INPUTS = Inputs.model_validate_json(
    """{
    "features": {
        "user": {"kind": "id", "type": "string", "table": "users"},
        "post": {"kind": "id", "type": "int", "table": "posts", "missing": 0},
        "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
        "history": {"kind": "sequence", "type": "int", "table": "posts", "max_length": 5},
        "price": {"kind": "numeric", "normalize": "zscore", "missing": 0},
        "hour": {"kind": "numeric", "normalize": "zscore", "type": "int"}
    },
    "tasks": {"like": {"kind": "binary"}, "rating": {"kind": "regression"}}
    }"""
)

TYPES: dict[str, pa.DataType] = {
    "user": pa.string(),
    "post": pa.int64(),
    "tags": pa.list_(pa.string()),
    "history": pa.list_(pa.int64()),
    "price": pa.float32(),
    "hour": pa.int64(),
    "like": pa.int64(),
    "rating": pa.float32(),
    "not_declared": pa.string(),
}

Row = dict[str, Any]

ROWS: list[Row] = [
    {
        "user": "ann",
        "post": 7,
        "tags": ["cat", "häst", "猫"],
        "history": [3, 0, -5],
        "price": 0.0,
        "hour": 0,
        "like": 0,
        "rating": 0.0,
        "not_declared": "x",
    },
    {
        "user": 'žofie, "the" 2nd',
        "post": None,
        "tags": [],
        "history": None,
        "price": None,
        "hour": -1,
        "like": 1,
        "rating": -2.5,
        "not_declared": None,
    },
    {
        "user": "0",
        "post": 0,
        "tags": None,
        "history": [],
        "price": -0.25,
        "hour": 23,
        "like": 1,
        "rating": 1e-3,
        "not_declared": "y",
    },
    {
        "user": "bob",
        "post": -(2**63) + 1,
        "tags": ["a"],
        "history": [2**63 - 1],
        "price": 1e9,
        "hour": 5,
        "like": 0,
        "rating": 4.0,
        "not_declared": "",
    },
]

SUFFIX = {"parquet": "parquet", "csv": "csv", "tfrecord": "tfrecord.gz"}


def day_logs(format_name: str = "parquet", **settings: Any) -> DayLogs:
    """Returns logs by day: two days to train on, one to evaluate on; they may have the same rows."""
    if format_name == "csv":
        settings = {"list_separator": "|"} | settings
    return DayLogs.model_validate(
        {
            "kind": "days",
            "format": format_name,
            "pattern": f"{{YYYY}}-{{MM}}-{{DD}}/*.{SUFFIX[format_name]}",
            "train_days": 2,
            "eval_days": 1,
            "equal_files": "read",
        }
        | settings
    )


def write_days(root: Path, format_name: str, days: Mapping[str, Sequence[Row]]) -> None:
    """Writes one file per day."""
    for day, rows in days.items():
        write(root / day / f"part-0.{SUFFIX[format_name]}", format_name, rows)


def write(path: Path, format_name: str, rows: Sequence[Row]) -> Path:
    """Writes rows, all columns or those that the first row has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match format_name:
        case "parquet":
            pq.write_table(table(rows), path)
        case "csv":
            write_csv(path, rows)
        case _:
            write_records(path, [example for batch in table(rows).to_batches() for example in examples(batch)])
    return path


def table(rows: Sequence[Row]) -> pa.Table:
    """Returns rows as a table, with the types of the logs where they have any."""
    names = list(rows[0]) if rows else list(TYPES)
    return pa.table({name: pa.array([row[name] for row in rows], TYPES.get(name)) for name in names})


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Writes a header and rows; lists are cut by |."""
    names = list(rows[0]) if rows else list(TYPES)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in rows:
            writer.writerow(["|".join(map(str, row[n])) if isinstance(row[n], list) else row[n] for n in names])


def examples(batch: pa.RecordBatch) -> list[bytes]:
    """Returns serialized tf.Examples, in which a null is a feature that is not there."""
    arrays = []
    for name in batch.schema.names:
        array = batch.column(batch.schema.get_field_index(name))
        if not pa.types.is_list(array.type):
            array = pa.array([None if value is None else [value] for value in array.to_pylist()], pa.list_(array.type))
        if pa.types.is_string(array.type.value_type):
            array = array.cast(pa.list_(pa.binary()))
        elif pa.types.is_floating(array.type.value_type):
            array = array.cast(pa.list_(pa.float32()))
        arrays.append(array)
    return list(RecordBatchToExamples(pa.RecordBatch.from_arrays(arrays, batch.schema.names)))


def write_records(path: Path, records: Sequence[bytes]) -> None:
    """Writes a TFRecord file, compressed if its name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    framed = b"".join(_framed(record) for record in records)
    path.write_bytes(gzip.compress(framed) if path.name.endswith(".gz") else framed)


def _framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", _crc(length)) + record + struct.pack("<I", _crc(record))


def _crc(data: bytes) -> int:
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def run_executor(properties: Mapping[str, Any], uri: Path, beam_args: Sequence[str] = BEAM_ARGS) -> Any:
    """Runs ingestion's executor; returns the Examples artifact."""
    from tfx.types import standard_artifacts

    from sangam.components.steps.example_gen.executor import Executor

    examples = standard_artifacts.Examples()
    examples.uri = str(uri)
    Executor(Executor.Context(beam_pipeline_args=list(beam_args))).Do({}, {"examples": [examples]}, dict(properties))
    return examples


def expected(row: Row, columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Returns the values of a row's Example; a column without values is left out."""
    values: dict[str, list[Any]] = {}
    for column in columns:
        value = row[column.name]
        many = value if isinstance(value, list) else [] if value is None else [value]
        if many:
            values[column.name] = [
                each.encode()
                if isinstance(each, str)
                else pa.scalar(each, pa.float32()).as_py()
                if column.type == "float"
                else each
                for each in many
            ]
    return values
