"""How long drafts train: a fixed number of passes, or as long as the validation days gain, with refit and calibration.

`python -m bench.quality.lengths WORK` writes the rows of docs/quality.md's section on the length of training. Nothing
here reads the days that the other tables of that document are evaluated on.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from ruamel.yaml import YAML
from sklearn.metrics import roc_auc_score

from bench.jobs import job_in
from bench.quality.changes import merged
from bench.quality.examples import Splits, examples
from bench.quality.experiments import SHARED_DATA
from sangam.components.arrow_files import open_parquet
from sangam.pipelines.drafting import draft
from sangam.pipelines.synthetic import generate
from sangam.schemas.contracts.example_files import day_of
from sangam.schemas.spec import RankerSpec, Spec
from sangam.trainer_module import collectives
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_snapshot
from sangam.trainer_module.input.local_reader import validation_batches
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.loop.training import train
from sangam.trainer_module.ranker import Ranker

_LAST_RETAIL_DAY = "2011-09-30"
_FEED_DAYS = 22
_LENGTHS: dict[str, dict[str, Any]] = {
    "1 pass over all days": {"epochs": 1, "early_stopping": None},
    "2 passes over all days": {"epochs": 2, "early_stopping": None},
    "at most 2, by pass": {"epochs": 2, "early_stopping": {"refit": True}},
    "at most 2, by quarter": {"epochs": 2, "early_stopping": {"per_epoch": 4, "refit": True}},
    "the same, not refitted": {"epochs": 2, "early_stopping": {"per_epoch": 4}},
}


@dataclass(frozen=True)
class _Logs:
    """Logs with their labels; `data` replaces members of the drafted section, `rates` multiplies learning rates."""

    folder: Path
    labels: tuple[str, ...]
    date: str
    data: Mapping[str, Any]
    rates: float = 1.0

    def num_rows(self, days: Collection[str]) -> int:
        """Returns the number of rows of some days."""
        files = [file for day in days for file in (self.folder / day).glob("*.parquet")]
        return sum(open_parquet(file).metadata.num_rows for file in files)

    def spec(self) -> Spec:
        """Returns the draft, with calibrated tasks."""
        drafted = YAML(typ="safe").load(draft(self.folder, "lengths", self.labels).text)
        tasks = {label: {"calibration": {"kind": "platt"}} for label in self.labels}
        training = drafted["training"]
        rates = {
            name: {"learning_rate": self.rates * training[name]["learning_rate"]}
            for name in ("dense_optimizer", "embedding_optimizer")
        }
        counts = {name: None for name, each in drafted["features"].items() if each["kind"] == "count"}  # By runs alone.
        changed = merged(drafted, {"data": dict(self.data), "features": counts, "tasks": tasks, "training": rates})
        return Spec.model_validate_json(json.dumps(changed))


class Measured(NamedTuple):
    """A row: means over the tasks, predicted over observed of each, passes before the refit, processor seconds."""

    auc: float
    predicted: tuple[float, ...]
    passes: float
    cpu_s: float


def _retail(work: Path, rates: float) -> _Logs:
    folder = work / "retail"
    folder.mkdir(parents=True, exist_ok=True)
    for day in (SHARED_DATA / "online_retail" / "lines").iterdir():
        if day.name <= _LAST_RETAIL_DAY and not (folder / day.name).exists():
            os.symlink(day, folder / day.name)
    days = {"train_days": 273, "validation_days": 9, "eval_days": 30, "missing_days": "skip"}
    return _Logs(folder, ("reorder", "bulk", "high_value"), _LAST_RETAIL_DAY, days, rates)


def _feed(work: Path) -> _Logs:
    folder = work / "feed"
    if not folder.exists():
        generate(
            folder,
            first_day=date(2024, 3, 1),
            num_days=_FEED_DAYS,
            rows_per_day=8000,
            num_users=3000,
            num_posts=3000,
            seed=1,
            drift=0.1,
        )
    days = {"train_days": _FEED_DAYS - 2, "validation_days": 2, "eval_days": 2}
    return _Logs(folder, ("like", "long_watch"), max(path.name for path in folder.iterdir()), days)


def _sets(work: Path) -> dict[str, _Logs]:
    return {
        "Online Retail": _retail(work, 1.0),
        "Online Retail, a quarter of the learning rates": _retail(work, 0.25),
        "feed that drifts": _feed(work),
    }


def _with(ranker: RankerSpec, training: Mapping[str, Any], seed: int) -> RankerSpec:
    document = ranker.model_dump(mode="json")
    document["training"] |= {**training, "seed": seed}
    if training["early_stopping"] is None:  # Nothing is held out to fit it on.
        document["tasks"] = {name: task | {"calibration": None} for name, task in document["tasks"].items()}
    return RankerSpec.model_validate_json(json.dumps(document))


def measured(ranker: RankerSpec, logs: _Logs, splits: Splits) -> Measured:
    """Trains as `sangam run` does, on one rank of this process, and measures the final checkpoint."""
    is_held_out = ranker.training.early_stopping is not None
    train_files = splits["train"] if is_held_out else (*splits["train"], *splits["validation"])
    validation = splits["validation"] if is_held_out else ()
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as place:
        folder = Path(place)
        days = tuple(sorted({day_of(file) for file in train_files}))
        held_out = tuple(sorted({day_of(file) for file in validation}))
        files = {"train_files": train_files, "validation_files": validation, "days": days, "validation_days": held_out}
        job = job_in(folder, ranker, **files, num_train_examples=logs.num_rows(days))[1]
        started = time.process_time()
        train(job, "", "0", rank=0, ranks=1)
        cpu_s = time.process_time() - started
        report = json.loads(job.report_file.read_text())
        manifest = read_manifest(folder / "final")
        trainer = InStepTrainer(Ranker(ranker, manifest.calibrations), rank=0, ranks=1)
        trainer.restore(read_snapshot(folder / "final", manifest, rank=0, ranks=1), folder / "final")
    labels, scores = [], []
    for batch in validation_batches(ranker, splits["eval"], rank=0, ranks=1):
        found = trainer.predict(batch)
        labels.append(batch["labels"].numpy())
        scores.append(np.concatenate([found[task] for task in ranker.tasks], 1))
    labels_NT, scores_NT = np.concatenate(labels), np.concatenate(scores)
    auc = np.mean([roc_auc_score(labels_NT[:, task], scores_NT[:, task]) for task in range(len(ranker.tasks))])
    predicted = (scores_NT.mean(0, np.float64) / labels_NT.mean(0, np.float64)).tolist()
    for note in report["notes"]:
        print(note)
    stopped = report["early_stopping"]
    passes = len(report["epochs"])
    if stopped is not None:
        passes = stopped["best_epoch"] + stopped["best_step"] / report["epochs"][0]["steps"]
    return Measured(float(auc), tuple(predicted), passes, cpu_s)


def main() -> None:
    """Prints a row for each set and length."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.lengths", description=__doc__)
    parser.add_argument("work", type=Path, help="folder of the logs and examples, kept for the next call")
    parser.add_argument("--sets", nargs="*", help="names; all when left out")
    parser.add_argument("--lengths", nargs="*", choices=_LENGTHS, default=list(_LENGTHS))
    parser.add_argument("--order", choices=("shuffled", "auto"), help="of the days, instead of the draft's")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    collectives.start()
    for name, logs in _sets(options.work).items():
        if options.sets and name not in options.sets:
            continue
        spec = logs.spec()
        splits = examples(spec, logs.date, logs.folder, options.work / "examples")
        for length in options.lengths:
            training = _LENGTHS[length] | ({"order": options.order} if options.order else {})
            found = measured(_with(spec.ranker(), training, options.seed), logs, splits)
            predicted = ", ".join(f"{each:.3f}" for each in found.predicted)
            row = (name, length, f"{found.auc:.4f}", predicted, f"{found.passes:g}", f"{found.cpu_s:.0f}")
            print("", *row, "", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
