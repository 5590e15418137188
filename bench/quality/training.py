"""Trains a declared ranker in this process, as rank 0 of 1, and measures it on unseen examples."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from bench.jobs import job_in
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.input.local_reader import own_batches, validation_batches
from sangam.trainer_module.loop.epoch import train_epoch
from sangam.trainer_module.loop.history import EpochReport
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.progress import Progress
from sangam.trainer_module.ranker import Ranker


class Trained(NamedTuple):
    """A model that was trained and measured.

    Attributes:
        aucs: after all epochs of the spec, by task.
        log_loss: mean over the tasks, in nats; of binary tasks.
        epoch_cpu_s: seconds of processor time that an epoch of training took, over all threads.
    """

    aucs: dict[str, float]
    log_loss: float
    epoch_cpu_s: float


def trained(
    declared: RankerSpec,
    train: Sequence[str],
    evaluated: Sequence[str],
    *,
    seed: int,
    unseen: Mapping[str, float] | None = None,
) -> Trained:
    """Trains a ranker by its spec and measures it; `unseen`: see `Ranker`."""
    training = declared.training.model_copy(update={"seed": seed})
    declared = declared.model_copy(update={"training": training})
    collectives.start()
    trainer = InStepTrainer(Ranker(declared, unseen=unseen), rank=0, ranks=1)
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        progress = Progress(job_in(Path(folder), declared)[1], rank=0)
        started = time.process_time()
        for epoch in range(training.epochs):
            trainer.begin_epoch(epoch)
            batches = own_batches(declared, train, epoch=epoch, rank=0, ranks=1)
            for _ in train_epoch(trainer, batches, progress, EpochReport()):
                pass
    epoch_cpu_s = (time.process_time() - started) / training.epochs
    large = declared.model_copy(update={"training": training.model_copy(update={"batch_size_per_rank": 4096})})
    labels, scores = [], []
    for batch in validation_batches(large, evaluated, rank=0, ranks=1):
        found = trainer.predict(batch)
        labels.append(batch["labels"].numpy())
        scores.append(np.concatenate([found[task] for task in declared.tasks], 1))
    labels_NT, scores_NT = np.concatenate(labels), np.concatenate(scores)
    aucs = {
        task: float(roc_auc_score(labels_NT[:, place], scores_NT[:, place]))
        for place, task in enumerate(declared.tasks)
    }
    chances_NT = np.clip(np.where(labels_NT > 0, scores_NT, 1.0 - scores_NT), 1e-7, None)
    return Trained(aucs, float(-np.log(chances_NT).mean()), epoch_cpu_s)
