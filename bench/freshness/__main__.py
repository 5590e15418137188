"""Measures the AUC gained by fresh deltas, and writes the tables of docs/online.md: `make bench-freshness`.

For each case and seed: logs, a daily run on the first days, then the days after it in the order of time, minute by
minute, through the online trainer. Four servers of the daily run's version score every row before it is trained on:
one applies no delta, one at midnight (UTC), one each hour, one each minute.
"""

import argparse
import itertools
import os
import shutil
from pathlib import Path

from bench.freshness.cases import CASES, measured
from bench.freshness.report import report
from bench.quality.report import put
from bench.results import add_line, commit, lines

_DOCUMENT = Path("docs") / "online.md"


def main() -> None:
    """Measures the missing results."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(
        prog="python -m bench.freshness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[[], *names], help=f"of: {'; '.join(names)}; all when left out")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("runs") / "freshness", help="of everything; a quick disk")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    file = options.folder / "results.jsonl"
    for case, seed in itertools.product(CASES, range(1, options.seeds + 1)):
        place = {"case": case.name, "seed": seed}
        if case.name not in (options.cases or names) or any(place.items() <= known.items() for known in lines(file)):
            continue
        work = options.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        add_line(file, place | {"commit": commit()} | measured(case, seed, work))
    put(_DOCUMENT, "freshness", report(lines(file)))


if __name__ == "__main__":
    main()
