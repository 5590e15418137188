"""The demo's daily run, and online training from it while generated rows arrive: for `bench.online_*`."""

import datetime
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from ruamel.yaml import YAML

from sangam.components.arrow_files import open_parquet
from tests.e2e.user_run import sangam, start, wait_until
from tests.kafka.broker import Broker

SPEC = Path("pipelines/specs/short_video.yaml")
NAME = "short_video"
DAYS = 7
_START_S = 120.0


class OnlineWorld:
    """A folder with the demo's logs of the last days and a root with its daily run; made once, then used again."""

    def __init__(self, folder: Path):
        """Takes the folder."""
        self.folder, self.logs, self.root = folder, folder / "logs", folder / "root"
        self.versions, self.stream = self.root / "serving" / NAME, folder / "stream"

    def prepare(self) -> None:
        """Makes logs up to yesterday (UTC), and a daily run of them, unless the folder has them."""
        if self.versions.is_dir():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        today = datetime.datetime.now(datetime.UTC).date()
        first = (today - datetime.timedelta(days=DAYS)).isoformat()
        yesterday = (today - datetime.timedelta(days=1)).isoformat()
        for arguments in (
            ["generate", "--output", str(self.logs), "--first-day", first, "--days", str(DAYS)],
            ["run", str(self.spec({})), "--date", yesterday, "--data", str(self.logs), "--root", str(self.root)],
        ):
            done = sangam(*arguments)
            if done.returncode != 0:
                raise RuntimeError(done.stdout + done.stderr)

    def forget(self) -> None:
        """Removes arrived rows and all outputs of online training."""
        pushed = sorted(path for path in self.versions.iterdir() if path.name.isdecimal())
        for path in (self.stream, self.root / "online", self.versions / "deltas", *pushed[1:]):
            shutil.rmtree(path, ignore_errors=True)

    def is_caught_up(self) -> bool:
        """Says whether the newest deltas come from the newest segments."""
        [file] = (self.root / "online" / NAME / "training").glob("*/logs/online.json")
        state = json.loads(file.read_bytes())
        return bool(state["delta"] > 2 and state["newest_segment"] - state["segment"] <= 1)

    def spec(self, online: Mapping[str, Any]) -> Path:
        """Writes the demo's spec with one rank and an `online` section; returns the file."""
        editor = YAML()
        document = editor.load(SPEC.read_text())
        document["event_time"], document["online"] = "event_time", dict(online)
        document["cluster"] |= {"ranks": 1, "data_workers": 0}
        file = self.folder / "spec.yaml"
        with file.open("w") as opened:
            editor.dump(document, opened)
        return file

    def last_day(self) -> pa.Table:
        """Returns the rows of the newest day."""
        newest = sorted(path for path in self.logs.iterdir() if path.name[0].isdigit())[-1]
        return open_parquet(next(newest.glob("*.parquet"))).read()

    @contextmanager
    def online(
        self, settings: Mapping[str, Any], source: "FolderSource | KafkaSource", cores: set[int]
    ) -> Iterator[Path]:
        """Runs `sangam online` on some cores; yields its log once it trains."""
        log = self.folder / "online.txt"
        process = start(
            ["online", str(self.spec(settings)), *source.options, "--root", str(self.root)], log, is_cold=True
        )
        os.sched_setaffinity(process.pid, cores)
        try:
            wait_until(lambda: process.poll() is not None or "behind, delta" in log.read_text(), "it trains", _START_S)
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            yield log
        finally:
            process.terminate()
            process.wait(150)

    @contextmanager
    def server(
        self, versions: Path, cores: set[int], poll_s: float | None = None
    ) -> Iterator[tuple[dict[str, str], int]]:
        """Runs `sangam serve` on some cores; yields its addresses and process number."""
        addresses = self.folder / f"addresses-{versions.parent.name}.json"
        addresses.unlink(missing_ok=True)
        options = ["--grpc-port", "0", "--rest-port", "0", "--address-file", str(addresses)]
        options += [] if poll_s is None else ["--poll-s", str(poll_s)]
        process = start(
            ["serve", str(versions), *options], self.folder / f"serve-{versions.parent.name}.txt", is_cold=True
        )
        os.sched_setaffinity(process.pid, cores)
        try:
            wait_until(lambda: addresses.exists() or process.poll() is not None, "the server is ready", _START_S)
            yield json.loads(addresses.read_text()), process.pid
        finally:
            process.terminate()
            process.wait(60)


class FolderSource:
    """A folder in which files appear."""

    def __init__(self, folder: Path):
        """Makes the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self.options = folder, ["--source", str(folder)]

    def appear(self, rows: pa.Table) -> float:
        """Puts rows, timed now, into a file of today; returns when it was renamed, by time.monotonic."""
        now = datetime.datetime.now(datetime.UTC)
        folder, name = self._folder / now.date().isoformat(), f"{time.time_ns()}.parquet"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(_timed(rows, now), folder / f"_{name}")
        (folder / f"_{name}").rename(folder / name)
        return time.monotonic()


class KafkaSource:
    """A topic of a real broker."""

    def __init__(self, broker: Broker):
        """Makes the topic."""
        topic = f"views-{time.time_ns()}"
        broker.create_topic(topic, 2)
        properties = {"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0}
        self._topic, self._producer = topic, Producer(properties)
        self.options = ["--source", f"kafka://{broker.address}", "--topic", topic]

    def appear(self, rows: pa.Table) -> float:
        """Sends rows, timed now; returns when the broker had them, by time.monotonic."""
        for row in _timed(rows, datetime.datetime.now(datetime.UTC)).to_pylist():
            self._producer.produce(self._topic, json.dumps(row).encode())
        self._producer.flush()
        return time.monotonic()


def _timed(rows: pa.Table, now: datetime.datetime) -> pa.Table:
    times = pa.array([int(now.timestamp())] * rows.num_rows, pa.int64())
    return rows.set_column(rows.schema.get_field_index("event_time"), "event_time", times)


class Traffic:
    """Rows of a day that arrive at a steady rate, timed when they do: every second as many."""

    def __init__(self, rows: pa.Table, source: FolderSource | KafkaSource, *, rows_per_s: int):
        self._rows, self._source, self._rate = rows, source, rows_per_s
        self._stopped, self._written = threading.Event(), 0
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _write(self) -> None:
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due += 1.0
            at = np.arange(self._written, self._written + self._rate) % self._rows.num_rows
            self._written += self._rate
            self._source.appear(self._rows.take(pa.array(at)))


def served(client: httpx.Client, rest: str) -> dict[str, Any]:
    """Returns the answer of `GET /deltas`."""
    document: dict[str, Any] = client.get(f"http://{rest}/deltas").json()
    return document
