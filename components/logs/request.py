"""The request to ingestion, parsed from TFX's exec properties."""

import datetime
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.days import yesterday
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs, Logs, Parts, ServedLogs, TableLogs

LOGS, INPUTS, DATE, DATA_ROOT, FINGERPRINT, CODE = "logs", "inputs", "date", "data_root", "fingerprint", "code"
NAME, MODE, PIPELINE_ROOT, START, GENERATION = "name", "mode", "pipeline_root", "start", "generation"
"""Names of the exec properties."""


_CLOCK_WAS_SET = datetime.date(2024, 1, 1)
"""A clock before this date is wrong: this code was written later."""


@dataclass(frozen=True)
class Request:
    """A request to ingestion.

    Attributes:
        logs: the spec's data section; of a table its rows by day or split, once `with_parts` has written them.
        inputs: features, tasks and keys of the spec.
        columns: columns of the inputs.
        date: YYYY-MM-DD; empty for logs without dates.
        data_root: folder that the patterns are relative to.
        name: name of the ranker.
        mode: mode of training: full or incremental.
        pipeline_root: root of the registry.
        code: digest of ingestion's code.
        fingerprint: fingerprint of the files, from the driver; empty if no driver runs.
        start: a `Start` as JSON, from the driver; empty if no driver runs.
        table: the data section, if it is a table.
        notes: notes for the user, on the rows of the table.
    """

    logs: Parts
    inputs: Inputs
    columns: tuple[Column, ...]
    date: str
    data_root: str
    name: str
    mode: str
    pipeline_root: str
    code: str = ""
    fingerprint: str = ""
    start: str = ""
    table: TableLogs | None = None
    notes: tuple[str, ...] = ()


def parse(properties: Mapping[str, Any], today: datetime.date) -> Request:
    """Reads the exec properties. An empty date is the day before `today`; logs without dates have none.

    Raises:
        UserError: if the date would come from a clock that is not set.
    """
    inputs = Inputs.model_validate_json(properties[INPUTS])  # First: it imports the parts that the logs name.
    # Any: mypy takes an annotated union for a value with a warm cache, and for a type with a cold one.
    logs_type: Any = Logs
    declared: Logs = TypeAdapter(logs_type).validate_json(properties[LOGS])
    table = declared if isinstance(declared, TableLogs) else None
    logs = declared.parts if isinstance(declared, ServedLogs | TableLogs) else declared
    if not properties.get(DATE) and isinstance(logs, DayLogs) and today < _CLOCK_WAS_SET:
        raise UserError(f"date: this machine's clock is not set (got {today}); set it, or give the date")
    return Request(
        logs=logs,
        inputs=inputs,
        columns=tuple(columns(inputs)),
        date=(properties.get(DATE) or yesterday(today).isoformat()) if isinstance(logs, DayLogs) else "",
        data_root=properties[DATA_ROOT],
        name=properties[NAME],
        mode=properties[MODE],
        pipeline_root=properties[PIPELINE_ROOT],
        code=properties[CODE],
        fingerprint=properties.get(FINGERPRINT) or "",
        start=properties.get(START) or "",
        table=table,
    )


def relative(path: str, request: Request) -> str:
    """Returns a log file's path below the data folder."""
    return posixpath.relpath(path, request.data_root or ".")


def today_utc() -> datetime.date:
    """Returns today's date."""
    return datetime.datetime.now(datetime.UTC).date()
