"""What current writers write: every encoding of Parquet, and the types that their schemas name."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.logs.readers import formats
from sangam.components.logs.rows.conversion import convert
from sangam.schemas.parts.columns import Column, ColumnType
from tests.components.logs.sample_logs import day_logs

TEXTS = pa.array(["a", "", "bb", None])
WHOLE = pa.array([1, 0, 1, None])
HALVES = pa.array([np.float16(1.5), None], pa.float16())


def read(path: Path, kind: ColumnType) -> list[Any]:
    wanted = [Column("c", kind, is_required=False)]
    with path.open("rb") as file:
        assert formats.inspect(day_logs(), file, str(path), wanted).problems == ()
        file.seek(0)
        batches = [rows.batch for rows in formats.read(day_logs(), file, str(path), wanted)]
    rows = [row for batch in batches for row in convert(batch, wanted, str(path)).batch.to_pylist()]
    return [row["c"][0] if row["c"] else None for row in rows]


# DuckDB's V2 pages have the DELTA ones and BYTE_STREAM_SPLIT.
@pytest.mark.parametrize(
    ("encoding", "values", "kind"),
    [
        ("DELTA_BINARY_PACKED", [1, 2, -3], "int"),
        ("BYTE_STREAM_SPLIT", [1, 2, -3], "int"),
        ("RLE", [True, False, True], "int"),
        ("BYTE_STREAM_SPLIT", [1.5, 2.5], "float"),
        ("DELTA_LENGTH_BYTE_ARRAY", ["a", "bb"], "string"),
        ("DELTA_BYTE_ARRAY", ["aa", "ab"], "string"),
    ],
)
def test_every_encoding_is_read(tmp_path: Path, encoding: str, values: list[Any], kind: ColumnType) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"c": values})
    pq.write_table(
        table, path, use_dictionary=False, column_encoding={"c": encoding}, data_page_version="2.0", compression="zstd"
    )
    assert encoding in pq.ParquetFile(path).metadata.row_group(0).column(0).encodings
    assert read(path, kind) == [value.encode() if isinstance(value, str) else value for value in values]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        *(
            (TEXTS.cast(of), "string", [b"a", None, b"bb", None])
            for of in (pa.large_string(), pa.string_view(), pa.binary_view(), pa.large_binary())
        ),
        (TEXTS.dictionary_encode(), "string", [b"a", None, b"bb", None]),
        *((WHOLE.cast(of), "int", [1, 0, 1, None]) for of in (pa.bool_(), pa.uint64(), pa.int8())),
        *((HALVES.cast(pa.float64()).cast(of), "float", [1.5, None]) for of in (pa.float16(), pa.decimal128(5, 2))),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_every_type_of_a_schema_is_read(
    tmp_path: Path, values: pa.Array, kind: ColumnType, expected: list[Any]
) -> None:
    pq.write_table(pa.table({"c": values}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", kind) == expected
