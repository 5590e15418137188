"""A feed whose servers look posts up in a table: its log of requests, the clicks that followed, and its spec."""

import datetime
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sangam.components.request_log.served import Plan, Served
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.spec.serving import RequestLog
from tests.components.request_log.sample_requests import write

CANDIDATES, PER_DAY, NAME = 6, 120, "feed"
WINDOW_S = 2
_DAY_S, _HOUR_S = 86_400, 3600
_NUM_DAYS = 3
_NUM_USERS, _NUM_POSTS = 20, 24
_TASTES = 2
_COLUMNS = {
    "user": ServedColumn(type="string", is_list=False, input="user"),
    "post": ServedColumn(type="int", is_list=False, input="post"),
    "price": ServedColumn(type="float", is_list=False, input="price"),
    "topic": ServedColumn(type="string", is_list=False, input="topic"),
}
_PLAN = Plan("feed", 7, RequestLog(share=1.0), _COLUMNS, ("click",), "shown_at")
_BY_DAY = "{YYYY}-{MM}-{DD}/*.parquet"
SPEC: dict[str, Any] = {
    "name": NAME,
    "event_time": "shown_at",
    "data": {
        "kind": "served",
        "log": "requests",
        "train_days": _NUM_DAYS - 1,
        "missing_days": "skip",
        "sources": {
            "clicks": {
                "kind": "actions",
                "pattern": f"clicks/{_BY_DAY}",
                "format": "parquet",
                "keys": {"request_id": {"type": "string"}, "post": {"type": "int", "column": "post_id"}},
                "time": "at",
                "window_s": WINDOW_S,
                "incomplete": "count",
                "columns": {"click": {"take": "happened"}},
            },
            "posts": {
                "kind": "table",
                "pattern": f"posts/{_BY_DAY}",
                "format": "parquet",
                "keys": {"post": {"type": "int", "column": "id"}},
                "time": "updated_at",
                "max_age_days": 3,
                "columns": {"price": {}, "topic": {}},
            },
        },
    },
    "tables": {"users": {"dim": 4}, "posts": {"dim": 4}, "topics": {"dim": 4}},
    "features": {
        "user": {"kind": "id", "type": "string", "table": "users"},
        "post": {"kind": "id", "type": "int", "table": "posts"},
        "topic": {"kind": "id", "type": "string", "table": "topics"},
        "price": {"kind": "numeric", "normalize": "zscore"},
    },
    "keys": {"request": {"type": "string", "column": "request_id"}},
    "tasks": {"click": {"kind": "binary"}},
    "model": {"kind": "shared_bottom", "bottom_units": [8], "tower_units": [4]},
    "training": {
        "batch_size_per_rank": 128,
        "epochs": 2,
        "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
        "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.1},
    },
    "cluster": {"ranks": 1, "data_workers": 0},
    "evaluation": {"group": {"by": "request"}, "confidence": {"replicates": 10}},
    "serving": {"log": {"share": 1, "file_every_s": 0.5}, "load": {"candidates": CANDIDATES, "seconds": 0.5}},
    "gates": [
        {"task": "click", "metric": "auc", "at_least": 0.4},
        {"skew": "features", "at_most": 0},
        {"skew": "scores", "at_most": 0},
    ],
    "push": {"kind": "directory", "path": f"serving/{NAME}"},
    "online": {
        "sync": {"rows_every_s": 0.5, "dense_every_s": 1.5, "full_every": 100},
        "checkpoint_every_s": 1,
        "joining": {"settle_s": 0.1, "segment_every_s": 0.2, "idle_s": 1, "lateness_s": 2},
    },
}

Row = dict[str, Any]


def day_of(at_s: float) -> str:
    """Returns the day of a time, UTC."""
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).date().isoformat()


class Feed:
    """The feed below a folder.

    Attributes:
        logs: folder of the log of requests, the clicks and the table.
        date: the last of the days before this one.
        clicks: pairs of a request and a post that was clicked.
    """

    def __init__(self, directory: Path):
        """Writes three days that ended at midnight: requests by the log's own writer, clicks, the table."""
        self.directory, self.logs = directory, directory / "logs"
        self.root, self.spec = directory / "root", directory / "feed.yaml"
        self._midnight = int(time.time()) // _DAY_S * _DAY_S
        self.date = day_of(self._midnight - 1)
        self.clicks: set[tuple[str, int]] = set()
        self.spec.write_text(json.dumps(SPEC))
        for number in range(_NUM_DAYS):
            self._write_day(self._midnight - (_NUM_DAYS - number) * _DAY_S)

    def seen(self, post: int, at_s: float) -> Row:
        """Returns what the table says of a post at a time: another price every hour, up to the last midnight."""
        updated = int(min(at_s, self._midnight - 1)) // _HOUR_S
        return {"price": post + 1 + updated % 24 / 32, "topic": f"t{(post + updated % 3) % 5}"}

    def _write_day(self, midnight: int) -> None:
        random = np.random.default_rng(midnight // _DAY_S)
        table: list[Row] = []
        requests: list[Served] = []
        clicks: list[Row] = []
        for hour in range(midnight, midnight + _DAY_S, _HOUR_S):
            table += [{"id": post, "updated_at": hour} | self.seen(post, hour) for post in range(_NUM_POSTS)]
        for number in range(PER_DAY):
            at_s = midnight + number * (_DAY_S // PER_DAY) + 0.5
            user, posts = number % _NUM_USERS, random.permutation(_NUM_POSTS)[:CANDIDATES].tolist()
            request_id = f"{day_of(midnight)}-{number}"
            requests.append(self._answered(request_id, user, posts, at_s))
            clicks += self._clicked(request_id, user, posts, int(at_s) + 1, random)
        write(self.logs / "requests", _PLAN, requests)
        self.arrive("posts", midnight, table)
        self.arrive("clicks", midnight, clicks)

    def _answered(self, request_id: str, user: int, posts: Sequence[int], at_s: float) -> Served:
        columns = {name: np.array(values) for name, values in self.columns(user, posts, at_s).items()}
        columns |= {name: columns[name].astype(object) for name in ("user", "topic")}
        scores = {"click": np.zeros((CANDIDATES, 1), np.float32)}
        return Served(_PLAN, request_id, at_s, None, columns, CANDIDATES, scores)

    def write_ahead(self, request_id: str, seconds: int) -> int:
        """Lets a request of a server whose clock is ahead appear in the log; returns its number of rows."""
        posts = range(CANDIDATES)
        write(self.logs / "requests", _PLAN, [self._answered(request_id, 0, posts, time.time() + seconds)])
        return CANDIDATES

    def columns(self, user: int, posts: Sequence[int], at_s: float) -> Mapping[str, list[Any]]:
        """Returns the inputs of `rank`."""
        seen = [self.seen(post, at_s) for post in posts]
        return {"user": [f"u{user}"], "post": list(posts)} | {
            name: [each[name] for each in seen] for name in ("price", "topic")
        }

    def _clicked(self, request_id: str, user: int, posts: Sequence[int], at_s: int, random: Any) -> list[Row]:
        likes = [random.random() < (0.8 if (post - user) % _TASTES == 0 else 0.2) for post in posts]
        clicked = [post for post, is_liked in zip(posts, likes, strict=True) if is_liked]
        self.clicks |= {(request_id, post) for post in clicked}
        return [{"request_id": request_id, "post_id": post, "at": at_s} for post in clicked]

    def arrive(self, log: str, at_s: float, rows: Sequence[Row]) -> None:
        """Lets rows appear in a log."""
        folder = self.logs / log / day_of(at_s)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{len(list(folder.iterdir())):03d}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows)), folder / f"_{name}")
        (folder / f"_{name}").rename(folder / name)

    def use(self, rest: str, requests: Sequence[str], *, price_unit: float = 1.0) -> None:
        """Asks a server for each request, and clicks on what it answers to.

        Args:
            rest: address of the server.
            requests: ids.
            price_unit: factor of the prices that are sent: the fault of a caller.
        """
        clicks: list[Row] = []
        for request_id in requests:
            random = np.random.default_rng(list(request_id.encode()))
            user, posts = int(random.integers(_NUM_USERS)), random.permutation(_NUM_POSTS)[:CANDIDATES].tolist()
            columns = self.columns(user, posts, time.time())
            inputs = {**columns, "price": [each * price_unit for each in columns["price"]]}
            body = {"signature_name": "rank", "inputs": inputs}
            answer = httpx.post(f"{rest}/v1/models/{NAME}:predict", json=body, headers={"x-request-id": request_id})
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-request-id"] == request_id
            clicks += self._clicked(request_id, user, posts, int(time.time()), random)
        self.arrive("clicks", time.time(), clicks)
