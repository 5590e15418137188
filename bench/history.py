"""What tables of rates and counts take: `python -m bench.history KEYS KEYS_OF_DAY DAYS FOLDER`, on one core.

A window of some days over so many ids moves by a day: the oldest is taken away, the tables as of the new day are made
and written, and a million rows of it are joined with them. Two rates and a count by one column.
"""

import datetime
import functools
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.scale import on_one_core
from components.examples.listing import DayExamples
from components.steps.transform.history.counts import Counts, summed
from components.steps.transform.history.tables import read_tables, table_of, write_tables
from components.steps.transform.history.window import Window
from schemas.derived.days import parse_day
from schemas.derived.history import By, history_groups
from schemas.host.splitmix64 import mix64
from schemas.spec import Inputs

_BY = {"id": "string"}
_INPUTS = Inputs.model_validate(
    {
        "features": {
            "views": {"kind": "count", "by": _BY, "days": 1000},
            "like_rate": {"kind": "rate", "task": "like", "by": _BY, "days": 1000},
            "share_rate": {"kind": "rate", "task": "share", "by": _BY, "days": 1000},
        },
        "tasks": {"like": {"kind": "binary"}, "share": {"kind": "binary"}},
    }
)
_ROWS = 1_000_000


def main(num_keys: str, num_keys_of_day: str, num_days: str, folder: str) -> None:
    """Fills the window, moves it by a day, and prints seconds and memory."""
    on_one_core()
    keys, of_day, days = int(num_keys), int(num_keys_of_day), int(num_days)
    [whole] = history_groups(_INPUTS)
    group = type(whole)(whole.by, days, whole.features)
    by_day = {f"2024-{1 + number // 28:02}-{1 + number % 28:02}": number for number in range(days + 1)}

    @functools.cache
    def counts_of(day: DayExamples) -> dict[By, Counts]:
        # In a run they are read from beside the day's examples.
        return {group.by: _counts(by_day[str(day.day)], keys, of_day)}

    window, seconds = Window(group, 2, parse_day("2024-01-01"), counts_of), {}
    *earlier, last = [DayExamples(day=day, folder="", names=(), rows=0) for day in by_day]
    for day in earlier:
        window.add(day, counts_of(day))
    today = counts_of(last)
    seconds["add_a_day"] = _timed(lambda: window.add(last, today))
    seconds["take_a_day_away"] = _timed(lambda: window.move_to(parse_day(str(last.day)) + datetime.timedelta(days=1)))
    seconds["table_of_a_day"] = _timed(lambda: table_of(_INPUTS, group, window.counts, today[group.by].keys_n))
    target = Path(folder)
    seconds["write_newest"] = _timed(
        lambda: write_tables(target, str(last.day), [table_of(_INPUTS, group, window.counts)])
    )
    [table] = read_tables(target)
    rows = np.random.default_rng(0).choice(table.keys_n, _ROWS)
    seconds["join_a_million_rows"] = _timed(lambda: table.values_of(rows))
    found = {
        "keys": len(table.keys_n),
        "seconds": {name: round(each, 2) for name, each in seconds.items()},
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "written_mb": round(sum(path.stat().st_size for path in target.iterdir()) / 1e6),
    }
    print(json.dumps(found))


def _counts(seed: int, keys: int, of_day: int) -> Counts:
    generator = np.random.default_rng(seed)
    ids_n = generator.integers(0, keys, of_day, np.uint64)
    keys_n = 1 + (mix64(ids_n) >> np.uint64(12)).astype(np.int64)
    rows = generator.integers(1, 4, of_day).astype(np.float64)
    return summed([Counts(np.sort(keys_n), np.stack([rows, rows, rows / 2, rows, rows / 4], 1))])


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


if __name__ == "__main__":
    main(*sys.argv[1:])
