"""Trains a declared ranker in this process, as rank 0 of 1, and measures it on examples it has not seen."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import roc_auc_score

from schemas.spec import RankerSpec
from trainer_module import collectives
from trainer_module.input.local_reader import own_batches, validation_batches
from trainer_module.loop.epoch import train_epoch
from trainer_module.loop.history import EpochReport
from trainer_module.loop.in_step import InStepTrainer
from trainer_module.ranker import Ranker


class _Quiet:
    """Stands in for the files that tell how far a job is."""

    def beat(self) -> None:
        pass

    def stepped(self, examples: int, loss: float) -> None:
        pass


def aucs(declared: RankerSpec, train: Sequence[str], evaluated: Sequence[str], *, seed: int) -> dict[str, float]:
    """Returns each task's AUC after all epochs of the spec."""
    training = declared.training.model_copy(update={"seed": seed})
    declared = declared.model_copy(update={"training": training})
    collectives.start()
    trainer = InStepTrainer(Ranker(declared), rank=0, ranks=1)
    for epoch in range(training.epochs):
        batches = own_batches(declared, train, epoch=epoch, rank=0, ranks=1)
        for _ in train_epoch(trainer, batches, _Quiet(), EpochReport()):  # type: ignore[arg-type]
            pass
    large = declared.model_copy(update={"training": training.model_copy(update={"batch_size_per_rank": 4096})})
    labels, scores = [], []
    for batch in validation_batches(large, evaluated, rank=0, ranks=1):
        found = trainer.predict(batch)
        labels.append(batch["labels"].numpy())
        scores.append(np.concatenate([found[task] for task in declared.tasks], 1))
    labels_NT, scores_NT = np.concatenate(labels), np.concatenate(scores)
    return {
        task: float(roc_auc_score(labels_NT[:, place], scores_NT[:, place]))
        for place, task in enumerate(declared.tasks)
    }
