"""Views and what follows them, produced to Kafka's topics second by second, with the truth that is kept of them."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from pipelines.synthetic.world import TASKS
from tests.soak.online.world import ACTIONS, ID, TIME, VIEWS, WINDOW_S

PARTITIONS = 2
_TICK_S = 0.5
_LATE_SHARE, _LATE_S = 0.05, 3
"""Views that arrive later than newer ones."""
_LONGEST_ACTION_S = 8.0
_TWICE_SHARE = 0.05
"""Actions that are sent twice."""
_FLUSH_S = 300.0


@dataclass
class Truth:
    """What was produced.

    Attributes:
        views: times by id.
        labels: ids by task that an action within the window followed.
        messages: to each topic.
    """

    views: dict[str, int] = field(default_factory=dict)
    labels: dict[str, set[str]] = field(default_factory=lambda: {task: set() for task in TASKS})
    messages: Counter[str] = field(default_factory=Counter)


class Feed:
    """Produces the rows of a day again and again, each time as views of their own, until it is stopped.

    A tick is acknowledged whole before the next one, so that what it says is late by no more than it means to be, also
    over a broker's death.
    """

    def __init__(self, rows: pa.Table, address: str, *, rows_per_s: float, seed: int):
        """Takes the rows with their labels, and the broker's address."""
        self._rows, self._chance, self._per_tick = rows.to_pylist(), random.Random(seed), rows_per_s * _TICK_S
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
        self._later: list[tuple[float, str, dict[str, Any]]] = []
        self._stopped, self._owed = threading.Event(), 0.0
        self.truth, self.error = Truth(), ""
        self.rows: dict[str, dict[str, Any]] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Starts to produce."""
        self._thread.start()

    def stop(self) -> None:
        """Produces the actions that are still to come, and ends."""
        self._stopped.set()
        self._thread.join(_FLUSH_S)
        assert not self._thread.is_alive()
        assert not self.error, self.error

    def _run(self) -> None:
        try:
            due = time.monotonic()
            while not self._stopped.wait(max(0.0, due - time.monotonic())):
                due = max(due + _TICK_S, time.monotonic() - 1.0)
                self._owed += self._per_tick
                for _ in range(int(self._owed)):
                    self._view()
                self._owed %= 1.0
                self._send_due(time.time())
            while self._later:
                self._send_due(time.time())
                time.sleep(_TICK_S)
        except BaseException as error:
            self.error = repr(error)
            raise

    def _view(self) -> None:
        number, now = len(self.truth.views), time.time()
        row = dict(self._rows[number % len(self._rows)])
        labels = {task: row.pop(task) for task in TASKS}
        row[ID], row[TIME] = f"view-{number}", int(now)
        self.truth.views[row[ID]] = row[TIME]
        self.rows[row[ID]] = row
        wait_s = self._chance.uniform(0.0, _LATE_S) if self._chance.random() < _LATE_SHARE else 0.0
        self._later.append((now + wait_s, VIEWS, row))
        for task, label in labels.items():
            if label:
                at = now + self._chance.uniform(0.0, _LONGEST_ACTION_S)
                self._later.append((at, ACTIONS, {ID: row[ID], "action": task}))

    def _send_due(self, now: float) -> None:
        """Sends what is due. Actions happen when they are sent: while the broker is away, nobody can act."""
        due = [each for each in self._later if each[0] <= now]
        self._later = [each for each in self._later if each[0] > now]
        self._chance.shuffle(due)
        for _, topic, row in due:
            if topic == ACTIONS:
                row["at"] = int(now)
                if row["at"] - self.truth.views[row[ID]] <= WINDOW_S:
                    self.truth.labels[row["action"]].add(row[ID])
            times = 2 if topic == ACTIONS and self._chance.random() < _TWICE_SHARE else 1
            for _ in range(times):
                self._produce(topic, row)
        left = self._producer.flush(_FLUSH_S)
        assert left == 0, f"{left} messages could not be sent in {_FLUSH_S} s"

    def _produce(self, topic: str, row: Mapping[str, Any]) -> None:
        self.truth.messages[topic] += 1
        self._producer.produce(topic, json.dumps(row).encode(), partition=self._chance.randrange(PARTITIONS))
