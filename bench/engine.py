"""Rows, eviction and bfloat16 of the embedding engine: `make bench`, after its contest (`bench.peers`).

Needs a quiet machine with two cores; `--quick` shows the order of magnitude. Prints tables and writes all numbers.
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import report, results
from bench.contest import measure


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no table of 10 million rows")
    parser.add_argument("--output", type=Path, default=Path("runs/bench.json"), help="all numbers")
    arguments = parser.parse_args()
    quick = arguments.quick
    scale, restored = _scale((100_000, 1_000_000) if quick else (100_000, 1_000_000, 10_000_000))
    print(f"{report.scale_table(scale, restored)}\n\n{report.export_table(restored)}", flush=True)
    eviction = measure("bench.eviction", 1_000_000 if quick else 10_000_000, 100, 16)
    precision = [measure("bench.precision", seed, 10 if quick else 60) for seed in range(1 if quick else 3)]
    goals = [*report.scale_goals(scale, restored), report.eviction_goal(eviction), report.precision_goal(precision)]
    print(f"\n{report.precision_table(precision)}\n\n{report.goal_table(goals)}")
    document = {"scale": scale, "restored": restored, "eviction": eviction, "auc": precision}
    results.write(arguments.output, document | {"goals": [dataclasses.asdict(goal) for goal in goals]})
    print(f"\nall numbers are in {arguments.output}")


def _scale(sizes: Sequence[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns costs of tables of these sizes, and of reading back the larger ones."""
    scale, restored = [], []
    for rows in sizes:
        with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
            checkpoint = str(Path(directory) / "step-000000000001") if rows >= 1_000_000 else ""
            scale.append(measure("bench.scale", rows, checkpoint))
            if checkpoint:
                restored.append(measure("bench.restored", checkpoint))
    return scale, restored


if __name__ == "__main__":
    main()
