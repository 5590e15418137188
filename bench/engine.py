"""The embedding engine against others and against itself, as ratios within one run: `make bench`.

Needs a quiet machine with two cores. Prints tables and writes all numbers to a JSON file.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import report
from bench.contest import Result, compete, measure
from bench.contestants import CONTESTANTS, ENGINES
from bench.stages import milliseconds_by_stage
from bench.workload import ranker

_PROFILED = ("sangam", "sangam_bf16")


def main() -> None:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short repeat, and no table of 10 million rows")
    parser.add_argument("--repeats", type=int, default=3, help="of the comparison")
    parser.add_argument("--output", type=Path, default=Path("runs/bench.json"), help="all numbers")
    arguments = parser.parse_args()
    quick, started = arguments.quick, time.monotonic()
    runs, stages = _contest(1 if quick else arguments.repeats, batches=8 if quick else 24)
    input_ms = measure("bench.reading")["batch_s"] * 1e3
    eviction = measure("bench.eviction", 1_000_000 if quick else 10_000_000, 100)
    by_stage = report.stage_table(stages, input_ms, eviction, ranker().training.evict_every_steps)
    print(f"\n{report.speed_table(runs)}\n\n{by_stage}", flush=True)
    scale, restored = _scale((100_000, 1_000_000) if quick else (100_000, 1_000_000, 10_000_000))
    print(f"\n{report.scale_table(scale, restored)}\n\n{report.export_table(restored)}", flush=True)
    precision = [measure("bench.precision", seed, 10 if quick else 60) for seed in range(1 if quick else 3)]
    goals = [*report.speed_goals(runs), *report.scale_goals(scale, restored)]
    goals += [report.eviction_goal(eviction), report.precision_goal(precision)]
    print(f"\n{report.precision_table(precision)}\n\n{report.goal_table(goals)}", flush=True)
    document = {
        "speed": {
            name: {ranks: [dataclasses.asdict(result) for result in results] for ranks, results in by_ranks.items()}
            for name, by_ranks in runs.items()
        },
        "stages_ms": stages | {"input": input_ms},
        "eviction": eviction,
        "scale": scale,
        "restored": restored,
        "auc": precision,
        "goals": [dataclasses.asdict(goal) | {"is_met": goal.is_met} for goal in goals],
        "seconds": time.monotonic() - started,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{document['seconds']:.0f} s; all numbers are in {arguments.output}")


def _contest(repeats: int, *, batches: int) -> tuple[dict[str, dict[int, list[Result]]], dict[str, dict[str, float]]]:
    """Runs the contestants in turn, so that a change of the machine's mood meets all; profiles ours once."""
    runs: dict[str, dict[int, list[Result]]] = {name: {1: [], 2: []} for name in ENGINES}
    stages: dict[str, dict[str, float]] = {}
    for repeat in range(repeats):
        for name in ENGINES:
            contestant = CONTESTANTS[name]
            if repeat >= contestant.most_repeats:
                continue
            for ranks in (1, 2):
                with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
                    trace = Path(directory) / "trace" if repeat == 0 and name in _PROFILED else None
                    result = compete(name, ranks=ranks, batches=batches, trace=trace)
                    if trace:
                        stages[f"{contestant.label}, ranks: {ranks}"] = milliseconds_by_stage(trace)
                runs[name][ranks].append(result)
                print(f"{contestant.label}, ranks: {ranks}: {result.median_s * 1e3:.1f} ms a step", flush=True)
    return runs, stages


def _scale(sizes: Sequence[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns what tables of these sizes cost, and what reading back the larger ones does."""
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
