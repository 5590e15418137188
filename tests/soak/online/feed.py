"""Views and what follows them, produced second by second to Kafka's topics or a folder, with the truth about them."""

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from sangam.pipelines.synthetic.world import TASKS
from tests.soak.online.faults import AHEAD_S, WRONG_SHARE, Folder, wrong_by
from tests.soak.online.world import ACTIONS, ID, TIME, VIEWS, WINDOW_S

PARTITIONS = 2
_TICK_S = 0.5
_LATE_SHARE, _LATE_S = 0.05, 3
"""Views that arrive later than newer ones."""
_LONGEST_ACTION_S = 8.0
_TWICE_SHARE = 0.05
"""Actions that are sent twice."""
_FLUSH_S, _DAY_S, _STAMPED_S = 300.0, 86_400, 600


@dataclass
class Truth:
    """What was produced.

    Attributes:
        views: times by id, of the views that become examples.
        left_out: ids of views whose clock was so wrong that they are counted instead.
        wrong_actions: number of actions that are counted instead.
        poison: number of messages that are no JSON.
        labels: ids by task that an action within the window followed.
        messages: to each topic.
    """

    views: dict[str, int] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    wrong_actions: int = 0
    poison: int = 0
    labels: dict[str, set[str]] = field(default_factory=lambda: {task: set() for task in TASKS})
    messages: Counter[str] = field(default_factory=Counter)


class Feed:
    """Produces the rows of a day again and again, each time as views of their own, until it is stopped.

    A tick is acknowledged whole before the next one, so that what it says is late by no more than it means to be, also
    over a broker's death.
    """

    def __init__(self, rows: pa.Table, to: str | Path, *, rows_per_s: float, seed: int):
        """Takes the rows with their labels, and the broker's address, or the folder of the logs."""
        self._rows, self._chance, self._per_tick = rows.to_pylist(), random.Random(seed), rows_per_s * _TICK_S
        self.folder = Folder(to, self._chance) if isinstance(to, Path) else None
        if self.folder is None:
            self._producer = Producer({"bootstrap.servers": to, "enable.idempotence": True, "log_level": 0})
        self._first = int(time.time()) // _DAY_S * _DAY_S - _DAY_S  # Yesterday, which the base was evaluated on.
        self._waiting: dict[str, list[dict[str, Any]]] = {VIEWS: [], ACTIONS: []}
        self._number = 0
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
        number, now, wrong_s = self._number, time.time(), wrong_by(self._chance)
        self._number += 1
        row = dict(self._rows[number % len(self._rows)])
        labels = {task: row.pop(task) for task in TASKS}
        row[ID], row[TIME] = f"view-{number}", int(now) + wrong_s
        if self._is_counted(wrong_s, row[TIME]):
            self.truth.left_out.add(row[ID])
        else:
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
                wrong_s = wrong_by(self._chance)
                row["at"] = int(now) + wrong_s
                is_counted, view = self._is_counted(wrong_s, row["at"]), self.truth.views.get(row[ID])
                if not is_counted and view is not None and 0 <= row["at"] - view <= WINDOW_S:
                    self.truth.labels[row["action"]].add(row[ID])
            times = 2 if topic == ACTIONS and self._chance.random() < _TWICE_SHARE else 1
            self.truth.wrong_actions += times * is_counted if topic == ACTIONS else 0
            for _ in range(times):
                self._produce(topic, row)
        if self.folder is not None:
            self.folder.write(self._waiting)
            self._waiting = {VIEWS: [], ACTIONS: []}
            return
        left = self._producer.flush(_FLUSH_S)
        assert left == 0, f"{left} messages could not be sent in {_FLUSH_S} s"

    def _is_counted(self, wrong_s: int, at: int) -> bool:
        """Returns whether a row of a clock becomes a dead letter or is left out, instead of being joined."""
        is_old = self.folder is None and at < self._first  # A file's day is that of its path; times are clipped to it.
        return wrong_s > AHEAD_S or is_old

    def _produce(self, topic: str, row: dict[str, Any]) -> None:
        self.truth.messages[topic] += 1
        if self.folder is not None:
            self._waiting[topic].append(row)
            return
        # A producer stamps its messages by the clock that is wrong; brokers may refuse stamps that are far ahead.
        at, now = int(row[TIME] if topic == VIEWS else row["at"]), int(time.time())
        stamp = (at if abs(at - now) < _STAMPED_S else now) * 1000
        poison = [b"{"] if self._chance.random() < WRONG_SHARE else []
        self.truth.poison += len(poison)
        for value in (*poison, json.dumps(row).encode()):
            self._producer.produce(topic, value, partition=self._chance.randrange(PARTITIONS), timestamp=stamp)
