"""Times the join of a main log with actions and a table on Beam's local runner, and its memory.

    python -m bench.joins FOLDER --rows 3000000

The logs, declared as those of the tests, are written below FOLDER unless they are there: 3 days, 20 floats a row, for
3 rows in 10 an action, 200,000 items a day.
"""

import argparse
import resource
import shutil
import time
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.logs.files.local_files import LocalStorage
from components.logs.files.resolve import resolve
from components.logs.joining.judged import counts_by_day, refuse_problems
from components.logs.joining.pipeline import join
from components.logs.joining.plan import plan_of
from tests.components.logs.sample_sources import DAYS, MIDNIGHT, logs, request_of

_ROWS_A_FILE, _ITEMS = 50_000, 200_000


def write_logs(folder: Path, rows: int) -> None:
    """Writes the three logs."""
    rng = np.random.default_rng(1)
    for day in DAYS:
        for log in ("shown", "likes", "items"):
            (folder / log / day).mkdir(parents=True)
        for part in range(-(-rows // len(DAYS) // _ROWS_A_FILE)):
            size = min(_ROWS_A_FILE, rows // len(DAYS) - part * _ROWS_A_FILE)
            at = np.sort(rng.integers(0, 86_400, size)) + MIDNIGHT[day]
            shown = {
                "row": np.array([f"{day}-{part}-{number:08d}" for number in range(size)]),
                "post": rng.integers(0, _ITEMS, size),
                "at": at,
            }
            floats = {f"x{number}": rng.random(size, dtype=np.float32) for number in range(20)}
            pq.write_table(pa.table(shown | floats), folder / f"shown/{day}/{part:05d}.parquet")
            acts = rng.random(size) < 0.3
            likes = {name: values[acts] for name, values in shown.items()}
            likes["time"] = likes.pop("at") + rng.integers(0, 4000, acts.sum())
            likes["what"] = np.where(rng.random(acts.sum()) < 0.5, "like", "view")
            likes["day"] = rng.random(acts.sum())
            pq.write_table(pa.table(likes), folder / f"likes/{day}/{part:05d}.parquet")
        items = {
            "id": np.arange(_ITEMS),
            "updated": MIDNIGHT[day] + rng.integers(0, 3600, _ITEMS),
            "price": rng.random(_ITEMS),
            "labels": [["a", "b"]] * _ITEMS,
        }
        pq.write_table(pa.table(items), folder / f"items/{day}/0.parquet")


def main() -> None:
    """Runs the join once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=3_000_000)
    arguments = parser.parse_args()
    root = arguments.folder / f"logs-{arguments.rows}"
    if not root.exists():
        write_logs(root, arguments.rows)
    declared = logs()
    request = request_of(declared, root)
    files = resolve(declared, DAYS[-1], str(root), LocalStorage())
    joined = arguments.folder / "joined"
    shutil.rmtree(joined, ignore_errors=True)
    before_mb = _peak_mb()
    wall_s, cpu_s = time.time(), time.process_time()
    plan = plan_of(declared, files.files, files.sources)
    run = join(lambda: beam.Pipeline(runner="FnApiRunner"), plan, request, str(joined))
    wall_s, cpu_s = time.time() - wall_s, time.process_time() - cpu_s
    refuse_problems(run, request)
    print(f"{arguments.rows} rows in {plan.buckets} buckets: {wall_s:.1f} s, {cpu_s:.1f} CPU s")
    print(f"peak {_peak_mb() - before_mb:.0f} MB above {before_mb:.0f} MB of imports and file lists")
    for day, counts in counts_by_day(run).items():
        print(day, counts)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
