"""The demo with joined labels and two tables of views.

One keeps them all: its rows count how often each view was trained on. The other one keeps the newest ones.
"""

import datetime
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML

from sangam.pipelines.synthetic import Scale, simulate
from sangam.pipelines.synthetic.world import TASKS
from tests.e2e.user_run import sangam

NAME, ID, TIME = "soaked", "request_id", "event_time"
VIEWS, ACTIONS = "shown", "done"
"""Folders of the logs, and topics."""
SOURCE = "reactions"
WINDOW_S = 10
COUNTED_DIM = 4
"""Of the table that counts, alone in its group."""
_SPEC = Path("pipelines/specs/short_video.yaml")
_DAYS = 4
ONLINE: dict[str, Any] = {
    "sync": {"rows_every_s": 2, "dense_every_s": 10, "full_every": 100},
    "checkpoint_every_s": 10,
    "joining": {"lateness_s": 5, "settle_s": 0.2, "segment_every_s": 1},
}


@dataclass(frozen=True)
class SoakWorld:
    """A folder with logs up to yesterday (UTC), and a root with the daily run that online training starts from."""

    directory: Path
    ranks: int = 1
    online: Mapping[str, Any] | None = None

    @property
    def root(self) -> Path:
        """The pipeline root."""
        return self.directory / "root"

    @property
    def spec(self) -> Path:
        """The spec's file."""
        return self.directory / "spec.yaml"

    @property
    def versions(self) -> Path:
        """The folder that is served."""
        return self.root / "serving" / NAME

    @property
    def stream(self) -> Path:
        """The folder in which files appear."""
        return self.directory / "stream"

    @property
    def state(self) -> Path:
        """The folder of the online training."""
        return self.root / "online" / NAME

    def prepare(self) -> pa.Table:
        """Writes logs and spec, and makes the daily run unless it is there; returns the last day's rows.

        What an earlier soak has left in the folder is removed, but its daily run.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        made = sorted(path for path in self.versions.glob("*") if path.name.isdecimal())
        for path in (self.state, self.stream, self.versions / "deltas", self.directory / "trainers", *made[1:]):
            shutil.rmtree(path, ignore_errors=True)
        self.stream.mkdir()
        self._write_spec()
        today = datetime.datetime.now(datetime.UTC).date()
        scale = Scale(rows_per_day=3000, num_users=200, num_posts=300, seed=3)
        days = list(simulate(scale, first_day=today - datetime.timedelta(days=_DAYS), num_days=_DAYS))
        if not self.versions.is_dir():
            for day in days:
                self._write_day(day.date.isoformat(), day.table)
            yesterday = days[-1].date.isoformat()
            folders = ["--data", str(self.directory / "logs"), "--root", str(self.root)]
            done: subprocess.CompletedProcess[str] = sangam("run", str(self.spec), "--date", yesterday, *folders)
            assert done.returncode == 0, done.stdout + done.stderr
        return days[-1].table

    def _write_day(self, day: str, table: pa.Table) -> None:
        ids = [f"{day}-{number}" for number in range(table.num_rows)]
        views = table.drop(list(TASKS)).append_column(ID, pa.array(ids))
        actions = [
            {ID: ids[row], "action": task, "at": table[TIME][row].as_py()}
            for task in TASKS
            for row in np.flatnonzero(table[task].to_numpy()).tolist()
        ]
        for name, rows in ((VIEWS, views), (ACTIONS, pa.Table.from_pylist(actions))):
            folder = self.directory / "logs" / name / day
            folder.mkdir(parents=True)
            pq.write_table(rows, folder / "0.parquet")

    def _write_spec(self) -> None:
        editor = YAML()
        document = editor.load(_SPEC.read_text())
        document["name"] = NAME
        document["data"] = {
            "kind": "days",
            "format": "parquet",
            "pattern": f"{VIEWS}/{{YYYY}}-{{MM}}-{{DD}}/*.parquet",
            "train_days": _DAYS - 1,
            "eval_days": 1,
            "sources": {
                SOURCE: {
                    "kind": "actions",
                    "pattern": f"{ACTIONS}/{{YYYY}}-{{MM}}-{{DD}}/*.parquet",
                    "format": "parquet",
                    "keys": {ID: {"type": "string"}},
                    "time": "at",
                    "window_s": WINDOW_S,
                    "incomplete": "count",
                    "columns": {task: {"take": "happened", "where": {"action": task}} for task in TASKS},
                }
            },
        }
        document["event_time"], document["online"] = TIME, dict(self.online or ONLINE)
        document["tables"]["views"] = {"dim": COUNTED_DIM, "capacity": {"rows": 400_000, "evict": "least_frequent"}}
        # Full all the time: each new view removes an old one's row, here and in serving.
        document["tables"]["newest"] = {"dim": 2, "capacity": {"rows": 1000, "evict": "least_recent"}}
        for feature, table in (("view", "views"), ("newest_view", "newest")):
            document["features"][feature] = {"kind": "id", "column": ID, "type": "string", "table": table}
        document["training"] |= {"batch_size_per_rank": 128, "epochs": 1, "evict_every_steps": 10}
        document["cluster"] |= {"ranks": self.ranks, "data_workers": 0}
        document["push"]["path"] = f"serving/{NAME}"
        del document["gates"][1:], document["drift"], document["evaluation"]
        document["gates"][0] = {"task": "like", "metric": "auc", "at_least": 0.3}
        with self.spec.open("w") as file:
            editor.dump(document, file)
