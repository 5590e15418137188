"""The rows of a table: their days, and files of a table that lack the label."""

import datetime
from collections.abc import Sequence
from dataclasses import replace

from sangam.components.logs.files.light_storage import open_light
from sangam.components.logs.files.listing import FileFacts
from sangam.components.logs.files.resolve import DataFile
from sangam.components.logs.tables.files import days_with_rows
from sangam.pipelines.drafting.dialect import dialect_of
from sangam.pipelines.drafting.guessing import Guesses
from sangam.pipelines.drafting.layout import Layout, table_of
from sangam.pipelines.drafting.reading import read_piece
from sangam.pipelines.drafting.sample import Sample
from sangam.schemas.spec.data import EVAL, TRAIN, CsvDialect, TableLogs

FEWEST_DAYS = 10
"""Fewest days with rows for runs by day; with fewer, a share of the newest rows is evaluated on."""


def days_of_table(layout: Layout, sample: Sample, guesses: Guesses) -> tuple[datetime.date, ...]:
    """Returns the days that have rows, oldest first; none if they are few. Reads the times of all rows."""
    assert guesses.event_time
    name = guesses.event_time.column
    table = TableLogs.model_validate(
        {
            "kind": "table",
            "format": layout.format,
            "pattern": layout.patterns["table"],
            "csv": sample.dialect.model_copy(update={"missing": tuple(sorted(guesses.absent))}),
            "columns": {name: guesses.forms[name]} if name in guesses.forms else {},
            "time": name,
            "eval": {"fraction": 0.1},
        }
    )
    paths = [f"{layout.root}/{file.path}" for file in layout.files if file.size_bytes]
    files = [DataFile(path, "table", None, FileFacts(0, 0)) for path in paths]
    days = days_with_rows(table, files, open_light)
    return tuple(days) if len(days) >= FEWEST_DAYS else ()


def with_labels(layout: Layout, labels: Sequence[str]) -> tuple[Layout, Sequence[str], str]:
    """Returns the files to train and evaluate on, the labels, and what is left out, in words.

    A competition's test file has no label: its rows are to be predicted. The training file alone is then a table, and
    the column that only it has is the label.
    """
    left_out = [f"{file.path}: ignored: is named neither train nor test" for file in layout.ignored]
    if TRAIN not in layout.patterns or EVAL not in layout.patterns:
        return layout, labels, ""
    train, test = (_names(layout, split) for split in (TRAIN, EVAL))
    lacking = [name for name in train if name not in test]
    wanted = list(labels) or lacking
    if not lacking or not set(wanted) <= set(lacking) or (not labels and len(lacking) > 1):
        return layout, labels, "\n".join(left_out)
    ignored = ", ".join(file.path for file in layout.groups[EVAL])
    table = replace(table_of(layout.root, layout.format, layout.groups[TRAIN]), root=layout.root)
    return table, wanted, "\n".join([f"{ignored}: ignored: has no label ({', '.join(wanted)})", *left_out])


def _names(layout: Layout, split: str) -> list[str]:
    path = f"{layout.root}/{layout.groups[split][0].path}"
    dialect = dialect_of(path) if layout.format == "csv" else CsvDialect()
    return list(read_piece(path, layout.format, 1, 2**20, dialect).table.column_names)
