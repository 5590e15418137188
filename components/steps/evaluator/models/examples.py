"""Reads examples, as arrays and as models take them."""

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sangam.components.examples.blocks import Types
from sangam.components.examples.listing import read_listing
from sangam.components.examples.reading import batches, blocks_with_rows
from sangam.components.steps.evaluator.judge.leaks import of_one_type
from sangam.schemas.contracts.example_files import BLOCK_ROWS

_BLOCKS_AT_ONCE = 4096 // BLOCK_ROWS
"""Blocks that are scored at once, if they are small: a model costs less per row for 4,096 of them than for 1,024."""


def sources(examples: Any, split: str) -> list[str]:
    """Returns the files of a split of an Examples artifact."""
    return list(read_listing(examples.uri).files(split))


def num_examples(examples: Any, split: str) -> int:
    """Returns the number of examples of a split."""
    return sum(day.rows for day in read_listing(examples.uri).splits.get(split, ()))


def read(source: str) -> Iterator[pa.RecordBatch]:
    """Yields the examples of a source: a list of values per example and column."""
    yield from batches(source)


def read_with_blocks(source: str, only: Types | None) -> Iterator[tuple[list[bytes], pa.RecordBatch]]:
    """Yields the examples of a source as models take them, and some columns as lists of values; None: all."""
    yield from blocks_with_rows(source, _BLOCKS_AT_ONCE, only)


def first_block(examples: Any, split: str, most: int) -> pa.RecordBatch | None:
    """Returns the first examples of a split, at most as many as a block has; None without any."""
    some = itertools.chain.from_iterable(map(read, sources(examples, split)))
    return next((batch.slice(0, most) for batch in some if batch.num_rows), None)


def first_rows(examples: Any, split: str, columns: list[str], most: int) -> pa.Table:
    """Returns columns of the first examples of a split: a list of values per example."""
    parts: dict[str, list[pa.Array]] = {column: [] for column in columns}
    rows = 0
    for batch in itertools.chain.from_iterable(map(read, sources(examples, split))):
        for column, arrays in parts.items():
            arrays.append(batch.column(batch.schema.get_field_index(column)).slice(0, most - rows))
        rows = min(most, rows + batch.num_rows)
        if rows == most:
            break
    return pa.table({column: of_one_type(arrays) for column, arrays in parts.items()})


def spread_rows(examples: Any, split: str, most: int) -> pa.RecordBatch:
    """Returns about `most` examples of a split, the first of each file: a list of values per example and column."""
    files = sources(examples, split)
    batches = [batch for file in files for batch in _some(file, -(-most // len(files)))]
    names = dict.fromkeys(name for batch in batches for name in batch.schema.names)
    table = pa.table({name: of_one_type([batch.column(name) for batch in batches]) for name in names})
    return table.combine_chunks().to_batches()[0]


def _some(source: str, most: int) -> Iterator[pa.RecordBatch]:
    for batch in read(source):
        yield batch.slice(0, most)
        most -= batch.num_rows
        if most <= 0:
            return
