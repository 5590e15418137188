"""AUC of every mode of training on real data: `python -m bench.quality.modes [--seeds 3] [--data NAME ...]`.

Two ranks and one data worker under the launcher, the specs of `bench.quality`, their evaluation split scored after each
epoch. Results are kept in runs/quality/modes.jsonl: what is there is not measured again.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.quality.examples import Splits, examples
from bench.quality.experiments import TABLES, WORK
from schemas.contracts.training_job import TrainJob, write_job
from schemas.spec import RankerSpec, Spec, digest
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
    """Measures what is missing, and prints the table."""
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
                if not any((name, mode, seed) == (was["data"], was["mode"], was["seed"]) for was in _known()):
                    _keep({"data": name, "mode": mode, "seed": seed, **_trained(_declared(spec, mode, seed), splits)})
    _print(options.data)


def _declared(spec: Spec, mode: str, seed: int) -> RankerSpec:
    document = json.loads(spec.ranker().model_dump_json(exclude_unset=True))
    document["training"] |= {"sync": _SYNC[mode], "seed": seed, "early_stopping": None}
    document["cluster"] = {"ranks": 2, "data_workers": 1}
    return RankerSpec.model_validate_json(json.dumps(document))


def _trained(ranker: RankerSpec, splits: Splits) -> dict[str, Any]:
    folder = (WORK / "modes").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        train_files=tuple(str(Path(file).resolve()) for file in splits[TRAIN]),
        validation_files=tuple(str(Path(file).resolve()) for file in splits[_EVAL]),
        transform_graph="",
        model_dir="",
        output_dir=str(folder / "output"),
        final_checkpoint=str(folder / "final"),
        checkpoint_dir=str(folder / "checkpoints"),
        log_dir=str(folder / "logs"),
    )
    write_job(folder / "job.json", job)
    command = [sys.executable, "-m", "trainer_module.launch.launcher", str(folder / "job.json"), str(os.getpid())]
    with (folder / "launch.log").open("wb") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log)
    report = json.loads(job.report_file.read_text())
    validation = report["epochs"][-1]["validation"]
    aucs = {task: metrics["auc"] for task, metrics in validation.items() if "auc" in metrics}
    return {"aucs": aucs, "seconds": report["seconds"], "sync": report["sync"]}


def _known() -> Iterator[dict[str, Any]]:
    if _RESULTS.exists():
        yield from map(json.loads, _RESULTS.read_text().splitlines())


def _keep(result: dict[str, Any]) -> None:
    _RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with _RESULTS.open("a") as lines:
        lines.write(json.dumps(result) + "\n")
    print(result["data"], result["mode"], result["seed"], result["aucs"], flush=True)


def _print(names: list[str]) -> None:
    print("| data | mode | " + "AUC by task, mean (least to most) of the seeds | less than `sync` by | seconds |")
    print("|---|---|---|---|---|")
    for name in names:
        base: dict[str, float] = {}
        for mode in _SYNC:
            found = [was for was in _known() if (was["data"], was["mode"]) == (name, mode)]
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
