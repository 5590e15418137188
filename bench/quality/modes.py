"""AUC of every mode of training on real data: `python -m bench.quality.modes [--seeds 3] [--data NAME ...]`.

Two ranks and one data worker under the launcher, the specs of `bench.quality`, their evaluation split scored after each
epoch. Results are kept in runs/quality/modes.jsonl and not measured again.
"""

import argparse
import json
import shutil
import statistics
from pathlib import Path
from typing import Any

from bench.jobs import job_in, launched
from bench.quality.examples import Splits, examples
from bench.quality.experiments import TABLES, WORK
from bench.results import add_line, lines
from schemas.spec import RankerSpec, Spec
from schemas.spec.data import TRAIN

_RESULTS = WORK / "modes.jsonl"
_EVAL = "eval"
_TABLES = {table.name: table for table in TABLES if table.name in ("online_retail", "census_nominal")}
_SYNC: dict[str, dict[str, Any]] = {
    "sync": {"kind": "sync"},
    "stale 0": {"kind": "stale", "staleness": 0},
    "stale 4": {"kind": "stale", "staleness": 4},
    "shadow easgd": {"kind": "shadow", "staleness": 4},
    "shadow ma": {"kind": "shadow", "staleness": 4, "algorithm": "ma"},
    "shadow bmuf": {"kind": "shadow", "staleness": 4, "algorithm": "bmuf"},
    "async": {"kind": "async", "staleness": 4},
}


def main() -> None:
    """Measures the missing results, and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.modes", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="*", choices=[*_TABLES], default=[*_TABLES])
    options = parser.parse_args()
    for name in options.data:
        table = _TABLES[name]
        spec = next(iter(table.specs().values()))
        splits = examples(spec, table.date, table.data, WORK / "examples")
        for seed in range(1, options.seeds + 1):
            for mode in _SYNC:
                place = {"data": name, "mode": mode, "seed": seed}
                if not any(place.items() <= was.items() for was in lines(_RESULTS)):
                    add_line(_RESULTS, place | _trained(_declared(spec, mode, seed), splits))
    _print(options.data)


def _declared(spec: Spec, mode: str, seed: int) -> RankerSpec:
    document = json.loads(spec.ranker().model_dump_json(exclude_unset=True))
    document["training"] |= {"sync": _SYNC[mode], "seed": seed, "early_stopping": None}
    document["cluster"] = {"ranks": 2, "data_workers": 1}
    return RankerSpec.model_validate_json(json.dumps(document))


def _trained(ranker: RankerSpec, splits: Splits) -> dict[str, Any]:
    folder = (WORK / "modes").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    files = {name: tuple(str(Path(file).resolve()) for file in splits[name]) for name in (TRAIN, _EVAL)}
    report = launched(*job_in(folder, ranker, train_files=files[TRAIN], validation_files=files[_EVAL]))
    validation = report["epochs"][-1]["validation"]
    aucs = {task: metrics["auc"] for task, metrics in validation.items() if "auc" in metrics}
    return {"aucs": aucs, "seconds": report["seconds"], "sync": report["sync"]}


def _print(names: list[str]) -> None:
    print("| data | mode | " + "AUC by task, mean (least to most) of the seeds | less than `sync` by | seconds |")
    print("|---|---|---|---|---|")
    for name in names:
        base: dict[str, float] = {}
        for mode in _SYNC:
            found = [was for was in lines(_RESULTS) if (was["data"], was["mode"]) == (name, mode)]
            if not found:
                continue
            means = {task: statistics.mean(was["aucs"][task] for was in found) for task in found[0]["aucs"]}
            base = base or means
            shown = ", ".join(
                f"{task} {mean:.4f} ({min(was['aucs'][task] for was in found):.4f} to "
                f"{max(was['aucs'][task] for was in found):.4f})"
                for task, mean in means.items()
            )
            less = ", ".join(f"{base[task] - mean:+.4f}" for task, mean in means.items())
            print(f"| {name} | {mode} | {shown} | {less} | {statistics.mean(was['seconds'] for was in found):.0f} |")


if __name__ == "__main__":
    main()
