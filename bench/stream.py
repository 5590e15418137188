"""Times the streaming joiner where a window of rows waits, and its memory.

    python -m bench.stream FOLDER --rate 500 --window-s 3600

Writes `window + 15 minutes` of the tests' logs below FOLDER, in files of 5 s: `rate` rows a second, for 3 in 10 an
action, and 20,000 items. Prints what reading a row costs, and what an example costs while the window waits.
"""

import argparse
import shutil
import statistics
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from components.stream.joiner import Joiner
from tests.components.logs.sample_sources import DAYS, MIDNIGHT, logs
from tests.components.stream.sample_stream import job_of

_FILE_S, _MORE_S, _ITEMS, _SEGMENTS = 5, 900, 20_000, 12
_DAY, _BEGIN = DAYS[1], MIDNIGHT[DAYS[1]] + 3600


def write_logs(folder: Path, rate: int, seconds: int) -> None:
    """Writes the three logs of a part of a day."""
    rng = np.random.default_rng(1)
    for log in ("shown", "likes", "items"):
        (folder / log / _DAY).mkdir(parents=True)
    items = {
        "id": np.arange(_ITEMS),
        "updated": np.full(_ITEMS, _BEGIN - 10),
        "price": rng.random(_ITEMS),
        "labels": [["a", "b"]] * _ITEMS,
    }
    pq.write_table(pa.table(items), folder / "items" / _DAY / "0.parquet")
    for part in range(seconds // _FILE_S):
        size = rate * _FILE_S
        at = np.sort(rng.integers(0, _FILE_S, size)) + _BEGIN + _FILE_S * part
        row = np.array([f"{_DAY}-{part}-{number:06d}" for number in range(size)])
        shown = {"row": row, "post": rng.integers(0, _ITEMS, size), "at": at, "hour": at % 24}
        pq.write_table(pa.table(shown), folder / "shown" / _DAY / f"{part:05d}.parquet")
        acts = rng.random(size) < 0.3
        likes = {
            "row": row[acts],
            "post": shown["post"][acts],
            "time": at[acts] + 2,
            "what": np.where(rng.random(acts.sum()) < 0.5, "like", "view"),
            "day": rng.random(acts.sum()),
        }
        pq.write_table(pa.table(likes), folder / "likes" / _DAY / f"{part:05d}.parquet")


def main() -> None:
    """Joins a few segments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--window-s", type=int, default=3600)
    arguments = parser.parse_args()
    folder = arguments.folder / f"stream-{arguments.rate}-{arguments.window_s}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = job_of(folder, logs(likes__window_s=arguments.window_s), lateness_s=0)
    write_logs(Path(job.data_root), arguments.rate, arguments.window_s + _MORE_S)
    before = psutil.Process().memory_info().rss
    joiner = Joiner(job)
    cpu_s = time.process_time()
    while not joiner.num_waiting:
        joiner.step()
    read = (time.process_time() - cpu_s) / joiner.counts["rows"]
    costs = []
    for _ in range(_SEGMENTS):
        cpu_s, examples = time.process_time(), joiner.counts["examples"]
        joiner.step(is_last=True)
        costs.append((time.process_time() - cpu_s) / (joiner.counts["examples"] - examples))
    rss = psutil.Process().memory_info().rss - before
    print(f"waiting={joiner.num_waiting} bytes_a_waiting_row={rss / joiner.num_waiting:.0f} read_us={1e6 * read:.1f}")
    print(
        f"example_us={1e6 * statistics.median(costs):.1f} ({1e6 * min(costs):.1f} to {1e6 * max(costs):.1f}), "
        f"examples a second of one core: {1 / (read + statistics.median(costs)):,.0f}"
    )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
