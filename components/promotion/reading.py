"""Reads the candidates that both versions scored from the log of requests."""

import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.files.day_files import listed_days, require_regular
from sangam.components.logs.files.light_storage import LightStorage, open_light
from sangam.components.logs.joining.canonical import canonical, canonical_type
from sangam.components.logs.readers import formats
from sangam.components.registry.shadow import Waiting
from sangam.schemas.contracts.request_log import (
    REQUEST_ID,
    SCORE,
    SHADOW_SCORE,
    SHADOW_VERSION,
    VERSION,
    hour_folder,
)
from sangam.schemas.derived.days import Day
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs

DAY = "day of the file"
"""Column with the day of a candidate's file, as an ordinal: no column of the log has such a name."""


@dataclass(frozen=True)
class Candidates:
    """Candidates that both versions scored.

    Attributes:
        rows: a row for each, with `DAY`.
        left_out: numbers of other candidates that the shadow scored, by reason.
    """

    rows: pa.Table
    left_out: Counter[str]


def candidates(
    logs: DayLogs,
    data_root: str,
    days: Sequence[Day],
    waiting: Waiting,
    tasks: Sequence[str],
    columns: Sequence[Column],
) -> Candidates:
    """Reads the candidates of some days.

    Args:
        logs: the log of requests, by day.
        data_root: folder that its pattern is relative to.
        days: days of the server's clock, UTC.
        waiting: the version in the shadow, and the live one.
        tasks: tasks whose predictions are read; those that a version lacks are missing.
        columns: other columns to read.

    Raises:
        UserError: a file cannot be read, or lacks one of these columns.
    """
    scores = [Column(prefix + task, "float") for task in tasks for prefix in (SCORE, SHADOW_SCORE)]
    own = [Column(REQUEST_ID, "string"), Column(VERSION, "int"), Column(SHADOW_VERSION, "int")]
    read = list({column.name: column for column in (*own, *scores, *columns)}.values())
    left_out: Counter[str] = Counter()
    tables = [pa.table({column.name: pa.array([], canonical_type(column)) for column in read} | {DAY: _days(0, 0)})]
    first = hour_folder(waiting.since.timestamp())
    for day, files in zip(days, listed_days(logs, days, data_root, LightStorage()), strict=True):
        require_regular(files)
        for file in files:
            if "/".join(posixpath.dirname(file.path).split("/")[-2:]) >= first:
                tables += _read(logs, file.path, day, waiting, read, left_out)
    return Candidates(pa.concat_tables(tables), left_out)


def _read(
    logs: DayLogs, path: str, day: Day, waiting: Waiting, columns: Sequence[Column], left_out: Counter[str]
) -> list[pa.Table]:
    """Returns the candidates of a file that both versions scored."""
    with open_light(path) as file:
        there = formats.inspect(logs, file, path, []).columns or ()
    if SHADOW_VERSION not in there:
        return []
    absent = [
        column for column in columns if column.name not in there and column.name.startswith((SCORE, SHADOW_SCORE))
    ]
    present = [column for column in columns if column not in absent]
    tables = []
    with open_light(path) as file:
        for rows in formats.read(logs, file, path, present):
            table = pa.table(canonical(rows.batch, present, path))
            for column in absent:
                table = table.append_column(column.name, pa.nulls(table.num_rows, canonical_type(column)))
            table = table.filter(pc.equal(table[SHADOW_VERSION], int(waiting.version)))
            answered = table[VERSION]
            both = table.filter(
                pc.and_(pc.greater_equal(answered, int(waiting.lineage)), pc.less_equal(answered, int(waiting.live)))
            )
            if others := table.num_rows - both.num_rows:
                left_out[f"answered by another version than {waiting.live}"] += others
            both = both.append_column(DAY, _days(both.num_rows, day.toordinal()))
            tables.append(both.select([*(column.name for column in columns), DAY]))
    return tables


def _days(size: int, day: int) -> pa.Array:
    return pa.array(np.full(size, day, np.int32))
