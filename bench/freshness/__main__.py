"""Measures what freshness gives, and writes the tables of docs/online.md. `make bench-freshness`.

For each case and seed: logs, a daily run on the first days, then the days after it in the order of time, minute by
minute, through the online trainer. Four servers of the daily run's version score every row before it is trained on:
one applies no delta, one at midnight (UTC), one each hour, one each minute.
"""

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

from bench.freshness.cases import CASES, measured
from bench.freshness.report import newest, table
from bench.quality.report import put

_DOCUMENT = Path("docs") / "online.md"


def main() -> None:
    """Measures what is not measured yet."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(
        prog="python -m bench.freshness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[[], *names], help=f"of: {'; '.join(names)}; all when left out")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("runs") / "freshness", help="of everything; a quick disk")
    parser.add_argument("--commit", default="", help="where the code is no work tree of git")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "results.jsonl"
    known = _results(file)
    commit = options.commit or _commit()
    for case in CASES:
        for seed in range(1, options.seeds + 1):
            is_known = any((result["case"], result["seed"]) == (case.name, seed) for result in known)
            if is_known or case.name not in (options.cases or names):
                continue
            work = options.folder / "work"
            shutil.rmtree(work, ignore_errors=True)
            found = {"case": case.name, "seed": seed, "commit": commit, **measured(case, seed, work)}
            print(json.dumps(found), flush=True)
            with file.open("a") as lines:
                lines.write(json.dumps(found) + "\n")
    if _DOCUMENT.exists():
        put(_DOCUMENT, "freshness", table(newest(_results(file))))


def _results(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, check=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
