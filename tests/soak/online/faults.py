"""What goes wrong with what is produced: clocks, and the files of a folder."""

import datetime
import math
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.soak.online.world import ACTIONS, VIEWS

WRONG_SHARE = 1e-3
"""Views and actions whose clock is wrong."""
_MINUTE_S, _HOUR_S, _LONGEST_S = 60, 3600, 70 * 365 * 86_400
AHEAD_S = 300
"""`online.joining.ahead_s`, of which no clock is just on the other side."""


def wrong_by(chance: random.Random) -> int:
    """Returns by how many seconds a clock is wrong: 0 for most, else 1 minute to 70 years, to either side."""
    if chance.random() >= WRONG_SHARE:
        return 0
    seconds = math.exp(chance.uniform(math.log(_MINUTE_S), math.log(_LONGEST_S)))
    if 2 * _MINUTE_S < seconds < _HOUR_S:
        seconds = 2 * _MINUTE_S  # Not near the bound: the arrival is not known exactly.
    return int(chance.choice([-1, 1]) * seconds)


class Folder:
    """Writes ticks of rows as Parquet files below a folder, in the ways that go wrong."""

    def __init__(self, root: Path, chance: random.Random):
        """Takes the folder of the logs."""
        self._root, self._chance, self._number = root, chance, 0
        self._last: dict[str, tuple[Path, list[dict[str, Any]]]] = {}
        self.faults: Counter[str] = Counter()

    def write(self, rows: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        """Writes the rows of one tick by log."""
        for log, of_log in rows.items():
            if of_log:
                self._write(log, list(of_log))
        if self._chance.random() < 0.05:
            self._spoil(self._chance.choice([VIEWS, ACTIONS]))

    def _write(self, log: str, rows: list[dict[str, Any]]) -> None:
        self._number += 1
        last, draw = self._last.get(log), self._chance.random()
        path = self._folder(log) / f"{self._number:08d}.parquet"
        if last and last[0].exists() and draw < 0.1:
            self.faults["grown"] += 1
            path, rows = last[0], [*last[1], *rows]
        table = pa.Table.from_pylist(rows)
        if draw < 0.2:  # In place, with a pause: what is read in between is damaged.
            self.faults["written with a pause"] += 1
            aside = self._root / "aside.parquet"
            pq.write_table(table, aside)
            content = aside.read_bytes()
            path.write_bytes(content[: len(content) // 2])
            time.sleep(self._chance.uniform(0.0, 0.5))
            path.write_bytes(content)
        else:
            aside = path.with_name(f"_{path.name}")
            pq.write_table(table, aside)
            aside.rename(path)
        self._last[log] = path, rows

    def _spoil(self, log: str) -> None:
        """Adds what is no new row: a damaged file, a file of a day to come, a link, a copy, another name."""
        self._number += 1
        folder, kind = self._folder(log), self._chance.choice(["damaged", "day", "link", "hard", "copy", "name"])
        path = folder / f"{self._number:08d}-{kind}.parquet"
        files = [each for each in folder.glob("*.parquet") if each.is_file() and not each.is_symlink()]
        if kind == "damaged":
            path.write_bytes(b"PAR1" + self._chance.randbytes(200) + b"PAR1")
        elif kind == "day":
            later = self._root / log / "2099-01-01"
            later.mkdir(exist_ok=True)
            (later / path.name).write_bytes(b"")
        elif not files:
            return
        elif kind == "link":
            path.symlink_to(self._chance.choice(files))
        elif kind == "hard":
            os.link(self._chance.choice(files), path)
        elif kind == "copy":
            aside = path.with_name(f"_{path.name}")
            shutil.copyfile(self._chance.choice(files), aside)
            aside.rename(path)
        else:
            self._chance.choice(files).rename(path)
        self.faults[kind] += 1

    def _folder(self, log: str) -> Path:
        folder = self._root / log / datetime.datetime.now(datetime.UTC).date().isoformat()
        folder.mkdir(parents=True, exist_ok=True)
        return folder
