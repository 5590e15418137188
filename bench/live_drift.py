"""Latency of requests that are compared with training over that without: `python -m bench.live_drift VERSION`.

Servers of one pushed version take turns as those of `bench.request_log` do: one of the version as it is, and one
without its `drift_reference.json`. Of the first it tells how many rows it has compared.
"""

import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.request_log import LOAD_CORE, MOST_RATIO, SERVER_CORE, Measured, arguments, take_turns
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
    given = arguments(__doc__).parse_args()
    os.sched_setaffinity(0, SERVER_CORE | LOAD_CORE)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        versions = {"without": without_reference(given.version, Path(scratch)), "compared": given.version}
        servers = {name: Measured(version, Path(scratch, name), stack) for name, version in versions.items()}
        ratios = take_turns(list(servers.values()), rate=given.rate, turns=given.turns, seconds=given.seconds)
        for (name, each), ratio in zip(servers.items(), ratios, strict=True):
            line = {"side": name, "p99_ms": each.p99_ms, "ratio": ratio, "cpu_s": each.spent_s()}
            print(json.dumps(line | {"rows": each.metric("sangam_drift_rows")}))
    return int(ratios[1] > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
