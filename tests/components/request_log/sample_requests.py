"""Answered requests of a small ranker, and the rows that they are in a log of candidates."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sangam.components.logs.readers import formats
from sangam.components.request_log.folder import Folder
from sangam.components.request_log.served import Plan, Served
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs, ServedLogs
from sangam.schemas.spec.serving import RequestLog
from tests.components.logs.sample_sources import DAYS, MIDNIGHT

COLUMNS = {
    "user": ServedColumn(type="string", is_list=False, input="user"),
    "price": ServedColumn(type="float", is_list=False, input="price"),
    "tags": ServedColumn(type="string", is_list=True, input="tags"),
    "hour": ServedColumn(type="int", is_list=False, input="hour"),
}
EVENT_TIME = "at"


def read_of(columns: Mapping[str, ServedColumn], **own: ColumnType) -> tuple[Column, ...]:
    """Returns columns of requests, and more of the log by their types, as training reads them."""
    requested = (Column(name, column.type, is_list=column.is_list) for name, column in columns.items())
    return *requested, Column("request_id", "string"), *(Column(name, kind) for name, kind in own.items())


READ = read_of(COLUMNS, served_position="int", shadow_version="int", shadow_score_like="float", at="int")

INPUTS = Inputs.model_validate(
    {
        "features": {
            "user": {"kind": "id", "type": "string", "table": "users", "missing": "none"},
            "price": {"kind": "numeric", "normalize": "zscore", "missing": 0},
            "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
            "hour": {"kind": "numeric", "normalize": "zscore", "type": "int"},
        },
        "tasks": {"like": {"kind": "binary"}, "seconds": {"kind": "regression"}},
        "keys": {
            "request": {"type": "string", "column": "request_id"},
            "served_position": {"type": "int"},
            "shadow_version": {"type": "int"},
        },
        "event_time": "at",
    }
)
SOURCES = {
    "clicks": {
        "kind": "actions",
        "pattern": "clicks/{YYYY}-{MM}-{DD}/*.parquet",
        "format": "parquet",
        "keys": {"request_id": {"type": "string", "column": "of"}},
        "time": "clicked",
        "window_s": 3600,
        "incomplete": "count",
        "columns": {"like": {"take": "happened"}, "seconds": {"take": "sum", "column": "watched"}},
    }
}
DECLARED = {"train_days": 2, "sources": SOURCES, "max_dropped_fraction": 0.9}
REQUESTS_A_DAY = 9

SERVED = ServedLogs.model_validate({"kind": "served", "log": "requests", **DECLARED})
CANDIDATES = DayLogs.model_validate(
    {"kind": "days", "format": "parquet", "pattern": "candidates/{YYYY}-{MM}-{DD}/*.parquet", **DECLARED}
)

Row = dict[str, Any]


def plan(**settings: Any) -> Plan:
    """Returns what is logged of version 7."""
    log = RequestLog.model_validate({"share": 1.0, **settings})
    return Plan("tiny", 7, log, COLUMNS, ("like",), EVENT_TIME)


def request(of: Plan, number: int, at_s: float, num_candidates: int) -> tuple[Served, list[Row]]:
    """Returns a request of one user, and a row for each candidate: every third without a price, the second without
    tags, in any second request without positions, and in the others without a version in the shadow."""
    prices = [np.nan if place % 3 == 2 else number + place / 4 for place in range(num_candidates)]
    tags = [[] if place == 1 else [f"t{number}", "all"][: place + 1] for place in range(num_candidates)]
    positions = list(range(num_candidates, 0, -1)) if number % 2 else [None] * num_candidates
    inputs = {
        "user": np.array([f"u{number}".encode()], object),
        "price": np.array(prices, np.float32),
        "tags": np.array([[*(tag.encode() for tag in each), b"", b""][:2] for each in tags], object),
        "tags_length": np.array([len(each) for each in tags]),
        "hour": np.array([number]),
    }
    scores = {"like": np.linspace(0, 1, num_candidates, dtype=np.float32)[:, None]}
    position = np.array(positions) if number % 2 else None
    shadow_scores = np.arange(num_candidates, dtype=np.float32) / 8
    shadow: dict[str, Any] = {} if number % 2 else {"shadow_version": 8, "shadow_scores": {"like": shadow_scores}}
    rows = [
        {
            "user": f"u{number}",
            "price": None if np.isnan(prices[place]) else prices[place],
            "tags": tags[place],
            "hour": number,
            "request_id": f"r{number}",
            "served_position": positions[place],
            "shadow_version": None if number % 2 else 8,
            "shadow_score_like": None if number % 2 else place / 8,
            EVENT_TIME: int(at_s),
        }
        for place in range(num_candidates)
    ]
    return Served(of, f"r{number}", at_s, 3, inputs, num_candidates, scores, position, **shadow), rows


class Clock:
    """A clock that a test moves."""

    def __init__(self, now: float):
        self.now = now

    def __call__(self) -> float:
        return self.now


def write(log: Path, of: Plan, requests: Sequence[Served]) -> Folder:
    """Writes requests at their times, and seals them."""
    clock = Clock(requests[0].at_s)
    folder = Folder(log, b"0123456789abcdef", clock)
    for each in requests:
        clock.now = each.at_s
        folder.write(of, [each])
        folder.look_after()
    folder.close()
    return folder


def sealed(log: Path) -> list[str]:
    """Returns the sealed files below a folder, without the names of their writers."""
    return sorted(f"{path.parent.relative_to(log)}/{path.stem[-6:]}" for path in log.glob("20*/*/*.parquet"))


def rows_of(log: Path, columns: Sequence[Column] = READ) -> list[Row]:
    """Returns the rows of all sealed files as ingestion reads them."""
    logs, rows = ServedLogs(kind="served", log=".", train_days=1).parts, []
    for file in sorted(log.glob("20*/*/*.parquet"), key=lambda path: (str(path.parent), path.stem[-6:])):
        with file.open("rb") as opened:
            for read in formats.read(logs, opened, str(file), columns):
                rows += read.batch.to_pylist()
    return rows


PLAN = plan()


def made(day: str) -> tuple[list[Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the requests of a day, their candidates, and the clicks that followed every second one."""
    requests, rows, clicks = [], [], []
    for number in range(REQUESTS_A_DAY):
        at_s = MIDNIGHT[day] + 9000 * number + 0.75
        served, candidates = request(PLAN, 100 * DAYS.index(day) + number, at_s, 1 + number % 4)
        requests.append(served)
        rows += candidates
        if number % 2:
            clicks.append({"of": served.request_id, "clicked": int(at_s) + 5, "watched": number / 8})
    return requests, rows, clicks
