"""Latency of requests that are compared with training over that without: `python -m bench.live_drift VERSION`.

Servers of one pushed version take turns as those of `bench.request_log` do: one of the version as it is, and one
without its `drift_reference.json`. Of the first it tells how many rows it has compared.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.request_log import LOAD_CORE, MOST_RATIO, SERVER_CORE, Measured
from sangam.components.registry.seal import MANIFEST_FILE
from sangam.schemas.contracts.drift_reference import FILE_NAME


def without_reference(version: Path, folder: Path) -> Path:
    """Copies a version but for its reference."""
    copy = shutil.copytree(version, folder / version.name)
    (copy / FILE_NAME).unlink()
    told = json.loads((copy / MANIFEST_FILE).read_text())
    del told["files"][FILE_NAME]
    (copy / MANIFEST_FILE).write_text(json.dumps(told))
    return copy


def main() -> int:
    """Prints the times of both, and their ratio; fails above the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", type=Path)
    parser.add_argument("--rate", type=float, default=40.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    os.sched_setaffinity(0, SERVER_CORE | LOAD_CORE)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        versions = {"without": without_reference(given.version, Path(scratch)), "compared": given.version}
        servers = {name: Measured(version, 0.0, Path(scratch) / name, stack) for name, version in versions.items()}
        os.sched_setaffinity(0, LOAD_CORE)
        for turn in range(given.turns):
            for each in list(servers.values())[:: 1 if turn % 2 else -1]:
                each.turn(seed=turn + 1, rate=given.rate, seconds=given.seconds)
        medians = {name: statistics.median(each.p99_ms) for name, each in servers.items()}
        for name, each in servers.items():
            ratio = round(medians[name] / medians["without"], 3)
            line = {"side": name, "p99_ms": each.p99_ms, "ratio": ratio, "cpu_s": each.spent_s()}
            print(json.dumps(line | {"rows": each.metric("sangam_drift_rows")}))
    return int(medians["compared"] / medians["without"] > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
