"""Parquet, page by page: memory does not grow with row groups."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from sangam.components.arrow_files import open_parquet
from sangam.components.logs.readers.batches import BATCH_ROWS, Inspection, Rows
from sangam.components.logs.readers.column_types import type_problem
from sangam.components.logs.readers.damage import ERRORS, parquet_problem
from sangam.schemas.derived.columns import Column
from sangam.schemas.errors import UserError

BUFFER_BYTES = 2**20
"""Bytes of a column chunk that are read at once."""


def inspect(file: BinaryIO, path: str, columns: Sequence[Column]) -> Inspection:
    """Reads columns, types and the number of rows from the footer."""
    try:
        parquet = open_parquet(file)
    except ERRORS as error:
        return Inspection(problems=(parquet_problem(file, path, error),))
    schema = parquet.schema_arrow
    problems = []
    for column in columns:
        count = schema.names.count(column.name)
        if count > 1:
            problems.append(
                f"{path}: column '{column.name}': is not unique (got {count} of this name); rename the others"
            )
        elif count and (problem := type_problem(column, schema.field(column.name).type)):
            problems.append(f"{path}: column '{column.name}': {problem}")
    num_rows = parquet.metadata.num_rows
    return Inspection(problems=tuple(problems), is_empty=num_rows == 0, num_rows=num_rows, columns=tuple(schema.names))


def read(file: BinaryIO, path: str, columns: Sequence[Column]) -> Iterator[Rows]:
    """Yields the columns of the inputs.

    Raises:
        UserError: if the file is damaged, or written in a way that pyarrow cannot read.
    """
    names = [column.name for column in columns]
    try:
        # Buffered: otherwise the first rows would need a whole row group in memory.
        for batch in open_parquet(file, buffer_size=BUFFER_BYTES).iter_batches(batch_size=BATCH_ROWS, columns=names):
            yield Rows(batch)
    except ERRORS as error:
        raise UserError(parquet_problem(file, path, error, names)) from error
