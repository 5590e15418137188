"""One rank of a training job: `python -m trainer_module JOB_FILE PARENT_PID`, started by `launch`."""

import json
import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from trainer_module import collectives, state
from trainer_module.check import write_check
from trainer_module.input import own_batches, served_batches
from trainer_module.job import TrainJob, read_job
from trainer_module.loop import EpochReport, Trainer
from trainer_module.processes import end_with_parent
from trainer_module.progress import Progress
from trainer_module.ranker import Batch, Ranker

_LOG = logging.getLogger("trainer_module.rank")


def main(job_file: str, parent_pid: str, service: str) -> None:
    """Trains one rank's part and leaves its state behind."""
    end_with_parent(int(parent_pid))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    job = read_job(Path(job_file))
    threads = job.ranker.cluster.threads_per_rank
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Collectives block a thread each while they wait for the other ranks.
    tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))
    rank, ranks = collectives.start()
    _LOG.info("start rank=%d ranks=%d spec_digest=%s", rank, ranks, job.spec_digest)
    progress = Progress(job, rank)
    progress.beat()
    trainer = Trainer(Ranker(job.ranker), rank=rank, ranks=ranks)
    started = time.monotonic()
    reports = []
    for epoch in range(job.ranker.training.epochs):
        report = trainer.train_epoch(_train_batches(job, epoch, rank, ranks, service), progress)
        if job.validation_files:
            report.validation = trainer.validate(_validation_batches(job, rank, ranks), progress)
        _LOG.info("epoch=%d steps=%d examples=%d", epoch, len(report.step_losses), report.examples)
        reports.append(report)
    seconds = time.monotonic() - started
    _write_state(job, trainer)
    write_check(job, trainer)
    collectives.barrier(name="state_written")
    if rank == 0:
        _write_report(job, trainer, reports, seconds)
    collectives.stop()


def _train_batches(job: TrainJob, epoch: int, rank: int, ranks: int, service: str) -> Iterable[Batch]:
    if service:
        return served_batches(job.ranker, job.train_files, epoch=epoch, service=service)
    return own_batches(job.ranker, job.train_files, epoch=epoch, rank=rank, ranks=ranks)


def _validation_batches(job: TrainJob, rank: int, ranks: int) -> Iterable[Batch]:
    in_order = job.ranker.training.model_copy(update={"shuffle_buffer": 1})
    declared = job.ranker.model_copy(update={"training": in_order})
    return own_batches(declared, job.validation_files, epoch=0, rank=rank, ranks=ranks)


def _write_state(job: TrainJob, trainer: Trainer) -> None:
    for dim, store in trainer.tables.stores.items():
        keys, rows = store.contents()
        state.write_rows(job.state_dir, dim=dim, rank=trainer.rank, ranks=trainer.ranks, keys=keys, rows=rows)
        _LOG.info("rows dim=%d count=%d bytes=%d", dim, len(keys), rows.nbytes)
    if trainer.rank == 0:
        state.write_dense(job.state_dir, trainer.ranker.weights, trainer.dense.flat.numpy())


def _write_report(job: TrainJob, trainer: Trainer, reports: list[EpochReport], seconds: float) -> None:
    """Writes training.json, and every step's losses by task as losses.npy [steps, tasks]."""
    tasks = trainer.ranker.tasks
    losses = np.array([losses for report in reports for losses in report.step_losses], np.float32)
    np.save(Path(job.output_dir) / "losses.npy", losses)
    examples = sum(report.examples for report in reports)
    document = {
        "spec_digest": job.spec_digest,
        "ranks": trainer.ranks,
        "parameters_dense": trainer.ranker.weights.size,
        "examples": examples,
        "seconds": round(seconds, 3),
        "examples_per_s": round(examples / seconds, 1),
        "epochs": [
            {
                "examples": report.examples,
                "steps": len(report.step_losses),
                "seconds": round(report.seconds, 3),
                "mean_loss": dict(zip(tasks, report.mean_losses(), strict=True)),
                "validation": report.validation,
            }
            for report in reports
        ],
    }
    (Path(job.output_dir) / "training.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
