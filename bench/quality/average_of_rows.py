"""Are rows worth averaging as dense weights are? `python -m bench.quality.average_of_rows [--seeds 2]`.

Plain specs on the validation data of `one_change`. Beside the training, each table's rows are averaged every ten steps
by the rule of `training.average: {kind: ema}`; after each epoch the same model is scored with its last rows and with
these. A row that is made meanwhile begins at its own value. Takes a quarter of an hour on one core.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from bench.quality.examples import examples
from bench.quality.experiments import TABLES, WORK, Table
from bench.quality.training import Quiet
from schemas.spec import RankerSpec
from trainer_module import collectives
from trainer_module.input.local_reader import own_batches, validation_batches
from trainer_module.loop.epoch import train_epoch
from trainer_module.loop.history import EpochReport
from trainer_module.loop.in_step import InStepTrainer
from trainer_module.ranker import Ranker

_EVERY_STEPS = 10
_DECAY = 0.999
_DATA = ("one_change_census_all_features", "one_change_online_retail", "one_change_feed")
_Rows = dict[str, NDArray[Any]]


def main() -> None:
    """Prints the mean AUC with the last and with averaged rows, by data, seed and epoch."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.average_of_rows", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    print("| data | seed | epoch | last rows | averaged rows |\n|---|---|---|---|---|")
    for table in (table for table in TABLES if table.name in _DATA):
        for seed in range(1, options.seeds + 1):
            for epoch, (last, averaged) in enumerate(_measured(table, seed), start=1):
                name = table.name.removeprefix("one_change_")
                print(f"| {name} | {seed} | {epoch} | {last:.4f} | {averaged:.4f} |", flush=True)


def _measured(table: Table, seed: int) -> list[tuple[float, float]]:
    declared = table.specs()["plain"]
    splits = examples(declared, table.date, table.data, WORK / "examples")
    ranker = declared.ranker()
    ranker = ranker.model_copy(update={"training": ranker.training.model_copy(update={"seed": seed})})
    collectives.start()
    trainer = InStepTrainer(Ranker(ranker), rank=0, ranks=1)
    averages: _Rows = {}
    found = []
    for epoch in range(ranker.training.epochs):
        trainer.begin_epoch(epoch, lambda: None)
        batches = own_batches(ranker, splits["train"], epoch=epoch, rank=0, ranks=1)
        for _ in train_epoch(trainer, batches, Quiet(), EpochReport()):  # type: ignore[arg-type]
            if trainer.step % _EVERY_STEPS == 0:
                _follow(trainer, averages)
        last = _mean_auc(trainer, ranker, splits["eval"])
        saved = {name: store.rows.numpy() for name, store in trainer.tables.stores.items()}
        _put(trainer, saved, averages)
        found.append((last, _mean_auc(trainer, ranker, splits["eval"])))
        _put(trainer, saved, {})
    return found


def _follow(trainer: InStepTrainer, averages: _Rows) -> None:
    step = trainer.step
    kept = min(_DECAY, (1 + step) / (10 + step)) ** _EVERY_STEPS
    for name, store in trainer.tables.stores.items():
        rows = store.rows[: int(store.end), : store.group.dim].numpy()
        before = averages.get(name, rows[:0])
        averages[name] = rows.copy()
        averages[name][: len(before)] = kept * before + (1 - kept) * rows[: len(before)]


def _put(trainer: InStepTrainer, saved: _Rows, averages: _Rows) -> None:
    for name, store in trainer.tables.stores.items():
        rows = saved[name].copy()
        if name in averages:
            rows[: len(averages[name]), : store.group.dim] = averages[name]
        store.rows.assign(rows)


def _mean_auc(trainer: InStepTrainer, ranker: RankerSpec, files: Any) -> float:
    training = ranker.training.model_copy(update={"batch_size_per_rank": 4096})
    labels, scores = [], []
    for batch in validation_batches(ranker.model_copy(update={"training": training}), files, rank=0, ranks=1):
        predicted = trainer.predict(batch)
        labels.append(batch["labels"].numpy())
        scores.append(np.concatenate([predicted[task] for task in ranker.tasks], 1))
    labels_NT, scores_NT = np.concatenate(labels), np.concatenate(scores)
    return float(np.mean([roc_auc_score(labels_NT[:, task], scores_NT[:, task]) for task in range(labels_NT.shape[1])]))


if __name__ == "__main__":
    main()
