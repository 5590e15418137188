"""Rows written as blocks come back as they were."""

import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from sangam.components.examples.blocks import decode, encode, plain, rows_of
from sangam.components.examples.reading import batches, blocks_with_rows, large_batches
from sangam.components.examples.writer import BlockWriter
from sangam.schemas.contracts.example_files import BLOCK_ROWS

pytestmark = pytest.mark.slow

COLUMNS = {
    "count": pa.array([[1], None, [-(2**63)], [2**63 - 1]], pa.list_(pa.int64())),
    "lengths/count": pa.array([None, None, None, None], pa.list_(pa.float32())),
    "price": pa.array([[0.5], [float("-0.0")], None, [1e-40]], pa.list_(pa.float32())),
    "words": pa.array([["ü".encode(), b""], None, None, [b"\0\xff"]], pa.list_(pa.large_binary())),
}


def rows(start: int, stop: int) -> pa.RecordBatch:
    values = pa.array([[number] for number in range(start, stop)], pa.list_(pa.int64()))
    return pa.RecordBatch.from_arrays([values], ["n"])


def numbers(file: Path) -> list[list[int]]:
    return [[value for [value] in batch.column(0).to_pylist()] for batch in batches(str(file))]


def test_a_block_gives_back_every_value_and_type() -> None:
    batch = pa.RecordBatch.from_pydict(COLUMNS)
    decoded = decode(encode(batch))
    assert decoded.schema.types == batch.schema.types
    assert decoded.to_pylist() == batch.to_pylist()


def test_blocks_that_are_read_together_give_the_rows_of_each() -> None:
    batch = pa.RecordBatch.from_pydict(COLUMNS)
    parts = [batch.slice(1, 1), batch, batch.slice(2)]
    together = rows_of([zlib.decompress(encode(part)) for part in parts])
    assert together.schema.types == batch.schema.types
    assert together.to_pylist() == [row for part in parts for row in part.to_pylist()]


def test_equal_rows_make_equal_bytes() -> None:
    batch = pa.RecordBatch.from_pydict(COLUMNS)
    assert len({encode(batch) for _ in range(20)}) == 1


def test_an_empty_list_is_a_missing_value() -> None:
    empty = pa.RecordBatch.from_pydict({"words": pa.array([[], [b"a"]], pa.list_(pa.large_binary()))})
    assert decode(encode(empty)).to_pydict() == {"words": [None, [b"a"]]}


def test_a_slice_is_written_without_the_rest() -> None:
    batch = pa.RecordBatch.from_pydict(COLUMNS).slice(2, 1)
    assert decode(encode(batch)).to_pylist() == batch.to_pylist()


def test_rows_of_any_batches_become_full_blocks_in_their_order(tmp_path: Path) -> None:
    with BlockWriter(str(tmp_path), "2024-03-01", 7) as writer:
        for start, stop in ((0, 10), (10, 10), (10, 3000), (3000, 3100)):
            writer.write(rows(start, stop))
    assert (writer.names, writer.rows) == (["examples-2024-03-01-00007-00000.blocks"], 3100)
    [file] = tmp_path.iterdir()
    blocks = numbers(file)
    assert [len(block) for block in blocks] == [BLOCK_ROWS, BLOCK_ROWS, BLOCK_ROWS, 3100 - 3 * BLOCK_ROWS]
    assert [number for block in blocks for number in block] == list(range(3100))
    assert [batch.column(0).flatten().to_pylist() for batch in large_batches([str(file)] * 2)] == [[*range(3100)] * 2]


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    with BlockWriter(str(tmp_path), None, 0, bytes_per_file=1) as writer:
        writer.write(rows(0, 2 * BLOCK_ROWS))
    assert (
        [file.name for file in sorted(tmp_path.iterdir())]
        == writer.names
        == [
            "examples-00000-00000.blocks",
            "examples-00000-00001.blocks",
        ]
    )


def test_no_rows_leave_one_empty_file(tmp_path: Path) -> None:
    with BlockWriter(str(tmp_path), None, 0) as writer:
        writer.write(rows(0, 0))
    assert numbers(tmp_path / writer.names[0]) == []


def test_blocks_read_together_have_their_rows_one_after_another(tmp_path: Path) -> None:
    whole = pa.RecordBatch.from_pydict(COLUMNS)
    parts = [whole.slice(start, rows) for start, rows in ((2, 2), (0, 1), (1, 1))]
    together = rows_of([plain(part) for part in parts])
    assert together.schema.types == whole.schema.types
    assert together.to_pylist() == [row for part in parts for row in part.to_pylist()]
    with BlockWriter(str(tmp_path), None, 0) as writer:
        writer.write(rows(0, 3 * BLOCK_ROWS + 5))
    found = list(blocks_with_rows(str(tmp_path / writer.names[0]), 2))
    assert [(len(blocks), batch.num_rows) for blocks, batch in found] == [(2, 2 * BLOCK_ROWS), (2, BLOCK_ROWS + 5)]
    assert [batch.to_pylist() for _, batch in found] == [rows_of(blocks).to_pylist() for blocks, _ in found]
    every = list(blocks_with_rows(str(tmp_path / writer.names[0]), 2, most_bytes=1))
    assert [batch.num_rows for _, batch in every] == [BLOCK_ROWS, BLOCK_ROWS, BLOCK_ROWS, 5]
    assert [n for _, batch in found for [n] in batch.column(0).to_pylist()] == list(range(3 * BLOCK_ROWS + 5))
