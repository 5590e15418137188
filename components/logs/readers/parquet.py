"""Parquet, page by page: memory does not grow with row groups. Of served requests, each candidate is a row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sangam.components.arrow_files import open_parquet
from sangam.components.logs.readers.batches import BATCH_ROWS, Inspection, Rows
from sangam.components.logs.readers.column_types import type_problem
from sangam.components.logs.readers.damage import ERRORS, parquet_problem
from sangam.components.logs.readers.forms import form_problem
from sangam.components.logs.readers.nested import Place, columns_of, keys_of, paths_of, places_of, type_of
from sangam.components.logs.readers.served import BATCH_REQUESTS, requests_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.forms import Form

BUFFER_BYTES = 2**20
"""Bytes of a column chunk that are read at once."""
_BATCH_TEXTS = 65_536


def inspect(file: BinaryIO, path: str, columns: Sequence[Column], forms: Mapping[str, Form]) -> Inspection:
    """Reads columns, types and the number of rows from the footer."""
    try:
        parquet = open_parquet(file)
        requests = requests_of(parquet, path)
    except UserError as error:
        return Inspection(problems=(str(error),))
    except ERRORS as error:
        return Inspection(problems=(parquet_problem(file, path, error),))
    schema, num_rows = parquet.schema_arrow, parquet.metadata.num_rows
    is_empty = num_rows == 0
    if requests:
        schema, num_rows = requests.schema, requests.num_rows
    places = places_of([column.name for column in columns], schema.names)
    problems = []
    for column in columns:
        count = schema.names.count(column.name)
        if count > 1:
            problems.append(
                f"{path}: column '{column.name}': is not unique (got {count} of this name); rename the others"
            )
            continue
        if column.name in places and (problem := _problem(column, places[column.name], schema, forms)):
            problems.append(f"{path}: column '{column.name}': {problem}")
    return Inspection(problems=tuple(problems), is_empty=is_empty, num_rows=num_rows, columns=tuple(schema.names))


def _problem(column: Column, place: Place, schema: pa.Schema, forms: Mapping[str, Form]) -> str | None:
    kind = type_of(place, schema)
    if kind is None:
        root, _ = place
        known = paths_of(root, schema.field(root).type)
        return f"no such field of '{root}' (got {listed(known)}); name one of them, or add it to the logs"
    form = forms.get(column.name)
    return form_problem(form, kind) if form else type_problem(column, kind)


@dataclass(frozen=True)
class Only:
    """What is read of a file: the rows, of requests all candidates, whose text has one of some values.

    Attributes:
        column: a column, as the file has it.
        values: values, as binary.
    """

    column: str
    values: pa.Array

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows that are read."""
        column = batch.column(batch.schema.get_field_index(self.column))
        return batch.filter(pc.is_in(column.cast(pa.binary()), self.values))


def read(file: BinaryIO, path: str, columns: Sequence[Column], only: Only | None = None) -> Iterator[Rows]:
    """Yields the columns of the inputs; of `only`, from the row groups that have such rows.

    Raises:
        UserError: if the file is damaged, or written in a way that pyarrow cannot read.
    """
    names = [column.name for column in columns]
    try:
        # Buffered: otherwise the first rows would need a whole row group in memory.
        parquet = open_parquet(file, buffer_size=BUFFER_BYTES)
        requests = requests_of(parquet, path)
        schema = requests.schema if requests else parquet.schema_arrow
        places = places_of(names, schema.names)
        roots = list(dict.fromkeys(root for root, _ in places.values()))
        keys = keys_of(places, schema)
        if requests:
            roots = requests.roots(roots)
        groups = list(range(parquet.num_row_groups))
        if only:
            roots = list(dict.fromkeys([*roots, only.column]))
            groups = [group for group in groups if _has_any(parquet, group, only)]
        for batch in parquet.iter_batches(
            batch_size=BATCH_REQUESTS if requests else BATCH_ROWS, row_groups=groups, columns=roots
        ):
            batch = only.of(batch) if only else batch
            found = columns_of(requests.rows(batch, path) if requests else batch, places)
            yield Rows(found, frozenset(key for key in keys if found[key].null_count == found.num_rows))
    except ERRORS as error:
        raise UserError(parquet_problem(file, path, error, names)) from error


def texts_of(file: BinaryIO, path: str, name: str) -> Iterator[pa.Array]:
    """Yields the values of a column as the file has them, as binary; of requests, one for each.

    Raises:
        UserError: the file is damaged, or does not have the column.
    """
    try:
        parquet = open_parquet(file, buffer_size=BUFFER_BYTES)
        if name not in parquet.schema_arrow.names:
            got = listed(parquet.schema_arrow.names)
            raise UserError(f"{path}: column '{name}': is missing (got {got}); it is no log of requests")
        for batch in parquet.iter_batches(batch_size=_BATCH_TEXTS, columns=[name]):
            yield batch.column(0).cast(pa.binary())
    except ERRORS as error:
        raise UserError(parquet_problem(file, path, error, [name])) from error


def _has_any(parquet: pq.ParquetFile, group: int, only: Only) -> bool:
    batches = parquet.iter_batches(batch_size=_BATCH_TEXTS, row_groups=[group], columns=[only.column])
    return any(only.of(batch).num_rows for batch in batches)
