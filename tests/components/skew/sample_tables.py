"""Requests of a server that reads prices and tags of posts from a table with a version an hour."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sangam.components.request_log.served import Plan, Served
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.serving import RequestLog

DAYS, MIDNIGHT = ("2024-02-28", "2024-02-29"), 1_709_078_400
NOON, HOUR_S = MIDNIGHT + 86_400 + 43_200, 3600
DATA: dict[str, Any] = {
    "kind": "days",
    "format": "parquet",
    "pattern": "rows/{YYYY}-{MM}-{DD}/*.parquet",
    "train_days": 1,
    "sources": {
        "items": {
            "kind": "table",
            "pattern": "items/{YYYY}-{MM}-{DD}/*.parquet",
            "format": "parquet",
            "keys": {"post": {"type": "int", "column": "id"}},
            "time": "updated",
            "max_age_days": 1,
            "columns": {"price": {}, "tags": {"column": "labels"}},
        }
    },
}
LOGS = DayLogs.model_validate(DATA)
COLUMNS = (Column("post", "int"), Column("price", "float"), Column("tags", "string", is_list=True))
PLAN = Plan(
    "tiny",
    7,
    RequestLog(share=1.0),
    {each.name: ServedColumn(type=each.type, is_list=each.is_list, input=each.name) for each in COLUMNS},
    ("like",),
    "at",
)
_POSTS, REQUESTS, CANDIDATES = 7, 12, 5


def _version(post: int, hour: int) -> dict[str, Any]:
    """Returns the version of a post that comes in an hour since the first midnight."""
    labels = [f"p{post}", *(f"h{number}" for number in range(hour % 3))]
    return {"id": post, "updated": MIDNIGHT + HOUR_S * hour + 60 * post, "price": post + hour / 8, "labels": labels}


def write_tables(root: Path) -> Path:
    """Writes two days of versions, of each post one an hour."""
    for number, day in enumerate(DAYS):
        folder = root / "items" / day
        folder.mkdir(parents=True)
        hours = range(24 * number, 24 * (number + 1))
        rows = [_version(post, hour) for hour in hours for post in range(_POSTS)]
        pq.write_table(pa.Table.from_pylist(rows), folder / "part.parquet")
    return root


def request(number: int, hours_behind: int) -> Served:
    """Returns a request at some time after noon, of a server whose table is behind by some versions."""
    at_s = NOON + 1000 * number + 0.5
    posts = [(number + place) % (_POSTS + 1) for place in range(CANDIDATES)]  # The table lacks the last post.
    seen = [_seen(post, at_s, hours_behind) for post in posts]
    tags = [each["labels"] if each else [] for each in seen]
    widest = max(map(len, tags))
    inputs = {
        "post": np.array(posts),
        "price": np.array([each["price"] if each else np.nan for each in seen], np.float32),
        "tags": np.array([[*(tag.encode() for tag in each), *[b""] * widest][:widest] for each in tags], object),
        "tags_length": np.array([len(each) for each in tags]),
    }
    scores = {"like": np.zeros((CANDIDATES, 1), np.float32)}
    return Served(PLAN, f"r{number}", at_s, None, inputs, CANDIDATES, scores)


def _seen(post: int, at_s: float, hours_behind: int) -> dict[str, Any] | None:
    versions = [_version(post, hour) for hour in range(24 * len(DAYS)) if post < _POSTS]
    there = [each for each in versions if each["updated"] <= int(at_s)]
    return there[-1 - hours_behind] if there else None
