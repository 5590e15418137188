"""The predictions of one file: a Parquet file, sealed by what its footer says of the rows and the model."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, TypeAdapter

from sangam.components.arrow_files import open_parquet
from sangam.components.logs.files.light_storage import open_light
from sangam.components.logs.readers import formats
from sangam.components.logs.readers.column_types import BINARY
from sangam.components.model.frames import converted
from sangam.components.model.model import BATCH_ROWS, Model
from sangam.components.model.predicting.output import Output
from sangam.components.model.predicting.sources import Source
from sangam.schemas.derived.columns import serving_columns
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import Logs

_SEAL = b"sangam.predictions"
FORMAT: Literal[1] = 1
# Any: mypy takes an annotated union for a value.
_LOGS: Any = Logs
LOGS: TypeAdapter[Logs] = TypeAdapter(_LOGS)


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Scoring(_Closed):
    """How files are scored; the same for all parts of a folder.

    Attributes:
        model: path or address of the model.
        model_sha256: sha256 of the list of the model's files.
        keep: columns of the files that the predictions have too.
        logs: how the files are read, as JSON of the spec's data section.
    """

    model: str
    model_sha256: str
    keep: tuple[str, ...]
    logs: str

    def is_like(self, other: "Scoring") -> bool:
        """Says whether another scoring gives the same predictions; a model may have moved."""
        return self.model_copy(update={"model": other.model}) == other


class Seal(_Closed):
    """What the footer of a part says.

    Attributes:
        format: format number.
        scoring: how it was scored.
        source: the file with its rows.
        rows: number of rows, each with a prediction of each task.
        noticed: values that were missing though training requires them, or that were taken for missing, by reason.
    """

    format: Literal[1] = FORMAT
    scoring: Scoring
    source: Source
    rows: int
    noticed: dict[str, int]


def read_seal(output: Output, name: str) -> Seal | None:
    """Returns the seal of a part; None for a file that is no whole part."""
    try:
        with output.open(name) as file:
            metadata = open_parquet(file).metadata.metadata or {}
        return Seal.model_validate_json(metadata[_SEAL])
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None


def write_part(model: Model, scoring: Scoring, source: Source, output: Output) -> None:
    """Scores the rows of a file in their order, and writes the part.

    Raises:
        UserError: the file does not fit the model, has changed, or the part cannot be written.
    """
    output.put(source.part, partial(_write, model, scoring, source))


def _write(model: Model, scoring: Scoring, source: Source, target: Path) -> None:
    noticed: Counter[str] = Counter()
    writer: pq.ParquetWriter | None = None
    rows = 0
    try:
        for table in _scored(model, scoring, source, noticed):
            writer = writer or pq.ParquetWriter(target, table.schema)
            writer.write_table(table)
            rows += table.num_rows
        if writer is None:
            raise UserError(f"{source.path}: has no rows (got none); remove it")
        seal = Seal(scoring=scoring, source=source, rows=rows, noticed=dict(sorted(noticed.items())))
        writer.add_key_value_metadata({_SEAL.decode(): seal.model_dump_json()})
    finally:
        if writer is not None:
            writer.close()


def _scored(model: Model, scoring: Scoring, source: Source, noticed: Counter[str]) -> Iterator[pa.Table]:
    """Yields the kept columns and the predictions of some rows at a time."""
    logs = LOGS.validate_json(scoring.logs)
    own = serving_columns(model.spec)
    names = {column.name for column in own}
    read = [*own, *(Column(name, "string", is_required=False) for name in scoring.keep if name not in names)]
    never_seen = set(names)
    first_row = 0
    with open_light(source.path) as file:
        for rows in formats.read(logs, file, source.path, read):
            never_seen &= rows.absent
            for start in range(0, rows.batch.num_rows, BATCH_ROWS):
                batch = rows.batch.slice(start, BATCH_ROWS)
                yield _table(model, scoring, source, own, batch, first_row + start, noticed)
            first_row += rows.batch.num_rows
    if never_seen and first_row:
        raise UserError(f"{source.path}: column '{min(never_seen)}': missing (got no row with it); add it to the file")


def _table(
    model: Model,
    scoring: Scoring,
    source: Source,
    own: Sequence[Column],
    batch: pa.RecordBatch,
    first_row: int,
    noticed: Counter[str],
) -> pa.Table:
    rows = converted(batch.select([column.name for column in own]), own, {}, source.path, first_row)
    noticed.update(rows.ignored)
    for column in own:
        if column.is_required and (missing := rows.batch.column(column.name).null_count):
            noticed[f"no value, which training requires: {column.name}"] += missing
    kept = {name: _kept(batch.column(name), f"{source.path}: column '{name}'") for name in scoring.keep}
    return pa.table(kept | {task: pa.array(scores) for task, scores in model.score_rows(rows.batch).items()})


def _kept(array: pa.Array, place: str) -> pa.Array:
    """Returns a column as it is in the file; texts of text formats, which are read as bytes, as texts."""
    if not any(check(array.type) for check in BINARY) or pa.types.is_decimal(array.type):
        return array
    try:
        return pc.cast(array, pa.string())
    except pa.ArrowInvalid:
        raise UserError(f"{place}: has texts that are not UTF-8; leave it out by --keep, or write UTF-8") from None
