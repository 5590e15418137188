"""A process that stops reading before the end of a file ends by itself, not by a signal."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.paths import REPOSITORY

# Arrow reads ahead in threads of its own while the interpreter ends; each child begins with none.
_PROGRAM = """
import os, sys
from sangam.components.logs.readers import csv, parquet
from sangam.schemas.parts.columns import Column
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import CsvDialect

csv.BLOCK_BYTES, columns, codes = 2**14, [Column("n", "int")], []
for _ in range(6):
    child = os.fork()
    if not child:
        file = open(sys.argv[1], "rb")
        is_parquet = sys.argv[1].endswith(".parquet")
        logs = CsvDialect(), None
        rows = parquet.read(file, "file", columns) if is_parquet else csv.read(file, "file", columns, *logs)
        try:
            next(rows)
        except UserError:
            sys.exit(2)
        sys.exit()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(codes)
"""


def _written(path: Path) -> Path:
    numbers = range(10**9, 10**9 + 100_000)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"n": numbers}), path, row_group_size=10_000)
    else:
        text = "".join(f"{number}\n" for number in numbers)
        path.write_text("n\n" + ("no number\n" if path.stem == "wrong" else "") + text)
    return path


@pytest.mark.processes
@pytest.mark.parametrize(("name", "code"), [("half_read.csv", 0), ("wrong.csv", 2), ("half_read.parquet", 0)])
def test_a_process_that_leaves_a_file_half_read_ends_with_its_own_code(tmp_path: Path, name: str, code: int) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(_written(tmp_path / name))]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (f"{[code] * 6}\n", "")
