"""A root with a version in the shadow of the live one, the log of a day's requests that both scored, and the likes."""

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sangam.components.promotion.paired import Scored
from sangam.components.request_log.served import Plan, Served
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.spec.serving import RequestLog
from tests.components.promotion.worlds import world
from tests.components.request_log.sample_requests import write as write_log
from tests.schemas.sample_specs import Document, changed

LIVE, SHADOW = "20240306001", "20240307001"
CANDIDATES, REQUESTS, USERS = 5, 240, 60
EVERY_S, WINDOW_S = 240, 600
PUSHED = datetime.datetime(2024, 3, 8, 6, tzinfo=datetime.UTC)
FIRST_S = PUSHED.timestamp() + 60
"""Time of the first request; the last one is 16 hours later."""
PLAN = Plan(
    "small",
    int(LIVE),
    RequestLog(share=1.0),
    {
        "user": ServedColumn(type="string", is_list=False, input="user"),
        "post": ServedColumn(type="int", is_list=False, input="post"),
    },
    ("like",),
    "at",
)
_LIKES = {
    "kind": "actions",
    "pattern": "likes/{YYYY}-{MM}-{DD}/*.parquet",
    "format": "parquet",
    "keys": {"request_id": {"type": "string", "column": "of"}, "post": {"type": "int"}},
    "time": "liked_at",
    "window_s": WINDOW_S,
    "columns": {"like": {"take": "happened"}},
}
_CHANGES: dict[str, Any] = {
    "data": {"kind": "served", "log": "requests", "train_days": 2, "sources": {"likes": _LIKES}},
    "features": {
        "user": {"kind": "id", "type": "string", "table": "users"},
        "post": {"kind": "id", "type": "int", "table": "posts"},
    },
    "tables": {"users": {"dim": 8}, "posts": {"dim": 4}},
    "tasks": {"like": {"kind": "binary"}},
    "event_time": "at",
    "evaluation": {"confidence": {"by": "user", "level": 0.9}},
    "gates": [{"task": "like", "metric": "auc", "at_least": 0.6}],
    "serving": {"log": {"share": 1.0}, "shadow": {"share": 1.0}},
    "push": {
        "kind": "directory",
        "path": "serving/small",
        "after": "shadow",
        "hours": 12,
        "max_auc_drop": 0.02,
        "max_calibration_error": 0.2,
        "least_users": 40,
        "least_positives": 50,
        "lateness_s": 0,
    },
}


def document(changes: dict[str, Any] | None = None) -> Document:
    """Returns the spec."""
    return changed(_CHANGES | (changes or {}))


def predicted(**settings: Any) -> Scored:
    """Returns what both versions predict of the candidates, in the order of the requests: one user each."""
    drawn = world(4, REQUESTS * CANDIDATES, users=USERS, **settings)
    return drawn


def put(folder: Path, number: str, created: datetime.datetime = PUSHED) -> Path:
    """Adds a version."""
    version = folder / number
    (version / "variables").mkdir(parents=True)
    contents = {
        "saved_model.pb": b"graph",
        "variables/data": number.encode(),
        "MODEL_CARD.md": f"# small, version {number}\n".encode(),
    }
    for name, content in contents.items():
        (version / name).write_bytes(content)
    files = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in contents.items()
    }
    (version / "manifest.json").write_text(json.dumps({"created": created.isoformat(), "files": files}))
    return version


def write_logs(root: Path, both: Scored) -> None:
    """Writes the log of requests with the scores of the shadow, and the likes."""
    scores = both.live.reshape(REQUESTS, CANDIDATES)
    users = both.users.reshape(REQUESTS, CANDIDATES)[:, 0]
    requests, likes = [], []
    for number in range(REQUESTS):
        at_s = FIRST_S + EVERY_S * number + 0.5
        inputs = {
            "user": np.array([f"u{users[number]}".encode()], object),
            "post": np.arange(CANDIDATES) + number,
        }
        live = {"like": scores[number].astype(np.float32)[:, None]}
        requests.append(Served(PLAN, f"r{number}", at_s, None, inputs, CANDIDATES, live))
        likes += [
            {"of": f"r{number}", "post": number + place, "liked_at": int(at_s) + 30}
            for place in range(CANDIDATES)
            if both.labels[number * CANDIDATES + place]
        ]
    write_log(root / "requests", PLAN, requests)
    add_shadow(root / "requests", both)
    folder = root / "likes" / f"{PUSHED:%Y-%m-%d}"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(likes), folder / "part.parquet")


def add_shadow(log: Path, both: Scored) -> None:
    """Writes the columns of the shadow into sealed files."""
    scores = both.shadow.reshape(REQUESTS, CANDIDATES)
    for file in log.glob("20*/*/*.parquet"):
        table = pq.read_table(file)
        table = table.drop_columns([name for name in table.column_names if name.startswith("shadow_")])
        lists = [scores[int(request[1:])].tolist() for request in table["request_id"].to_pylist()]
        table = table.append_column("shadow_version", pa.array([int(SHADOW)] * len(lists)))
        pq.write_table(table.append_column("shadow_score_like", pa.array(lists, pa.list_(pa.float32()))), file)
