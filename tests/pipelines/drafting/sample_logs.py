"""Small logs by day, made of columns."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from ruamel.yaml import YAML

from sangam.pipelines.drafting import Draft, draft
from sangam.pipelines.synthetic.files import write_table
from sangam.schemas.loading.documents import check_document
from sangam.schemas.spec import Spec
from sangam.schemas.spec.patterns import FileFormat

FIRST_DAY = datetime.date(2024, 3, 1)
ROWS_OF_DAY, DAYS = 500, 4
ROWS = ROWS_OF_DAY * DAYS
RNG = np.random.default_rng(1)
CLICKED = (RNG.random(ROWS) < 0.3).astype(np.int64)
USERS = [f"u{number}" for number in RNG.integers(200, size=ROWS)]
EVENT_TIME = np.concatenate(
    [
        np.sort(RNG.integers(86_400, size=ROWS_OF_DAY)) + 1_709_251_200 + 86_400 * day  # 2024-03-01
        for day in range(DAYS)
    ]
)


def write_days(folder: Path, columns: Mapping[str, Any], file_format: FileFormat = "parquet") -> Path:
    """Writes the columns as logs, a folder and a file each day; returns the folder."""
    table = pa.table(dict(columns))
    for day in range(DAYS):
        of_day = folder / str(FIRST_DAY + datetime.timedelta(days=day))
        of_day.mkdir(parents=True)
        write_table(table.slice(day * ROWS_OF_DAY, ROWS_OF_DAY), of_day, file_format)
    return folder


def drafted(
    folder: Path, columns: Mapping[str, Any], labels: Sequence[str] = (), file_format: FileFormat = "parquet"
) -> tuple[dict[str, Any], Draft]:
    """Returns the document of a draft for logs of these columns, which is valid, and the draft."""
    made = draft(write_days(folder / "logs", {"user_id": USERS, **columns}, file_format), "small", labels)
    return valid(made), made


def valid(made: Draft) -> dict[str, Any]:
    """Returns the document of a draft, which has to be valid."""
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(made.text)
    spec_of(document)
    return document


def spec_of(document: dict[str, Any]) -> Spec:
    """Returns the spec of a document, which has to be valid."""
    spec = check_document(document)
    assert isinstance(spec, Spec), spec
    return spec


def left_out(made: Draft) -> dict[str, str]:
    """Returns why columns are left out, by name."""
    return {each.column: each.why for each in made.guesses.left_out}
