"""Exports the trained state as a SavedModel: `python -m sangam.trainer_module.export JOB PID`.

It maps raw examples to predictions: Transform's graph, the rows in the spec's form, and the trained ranker. The form
`stock` uses only TensorFlow's own operations: TensorFlow Serving, TFMA and Beam load it without further packages.

`trainer_module.serving.writing` writes the model in a child process. Meanwhile this process restarts itself with only
TensorFlow, and then loads the model as a server does.
"""

from sangam.schemas.host.needless_imports import leave_out_needless

if __name__ == "__main__":
    leave_out_needless()  # Before the imports below.

import contextlib
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sangam.schemas.contracts.export import (
    IDS_REPORT_FILE,
    RANK,
    SERVE,
    SERVED_SCORES_FILE,
    ExportReport,
    IdsReport,
    TaskLoss,
)
from sangam.schemas.contracts.training_job import TrainJob, read_job
from sangam.schemas.host.files import remove_folder, write_whole
from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.schemas.host.wildcards import without_wildcards
from sangam.trainer_module.check_scores import read_check
from sangam.trainer_module.serving.operations import load_operations
from sangam.trainer_module.serving.reduction import labels_of, reductions
from sangam.trainer_module.serving.scores import evaluation_requests, full_scores_file, refuse_difference, scores_of

_LOG = logging.getLogger("sangam.trainer_module.export")


def export(job: TrainJob) -> None:
    """Writes the SavedModel, compares its scores with the ranks', and then writes the report that makes it valid.

    Raises:
        ValueError: its scores differ from the ranks', or there are no examples to measure smaller rows on.
    """
    started = time.time()
    write(job)
    check(job, started)


def write(job: TrainJob) -> None:
    """Writes the model, after removing the remains of a killed export."""
    # Imported here: the check of a model does not need it.
    from sangam.trainer_module.serving.writing import write

    write(job, Path(job.model_dir))


def check(job: TrainJob, started: float) -> None:
    """Loads the model, compares its scores, and writes the report; removes a model with different scores.

    Args:
        job: the job of the model.
        started: start of the export, seconds since 1970.
    """
    try:
        report = _checked(job)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_folder(Path(job.model_dir))
        raise
    report = report.model_copy(update={"seconds": round(time.time() - started, 3)})
    _LOG.info("exported %s", " ".join(f"{name}={value}" for name, value in report.model_dump().items()))
    write_whole(job.export_file, report.model_dump_json(indent=2) + "\n")


def _checked(job: TrainJob) -> ExportReport:
    """Returns the report of a model whose scores match the ranks'."""
    model, output_dir, spec = Path(job.model_dir), Path(job.output_dir), job.ranker.export
    size = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
    losses: dict[str, TaskLoss] = {}
    if job.check_files:
        load_operations(spec.form)
        with without_wildcards(str(model)) as literal:
            loaded = tf.saved_model.load(literal)
        raw, expected = read_check(output_dir)
        served = scores_of(loaded.signatures[SERVE], [{"examples": tf.constant(raw, tf.string)}])
        np.savez(output_dir / SERVED_SCORES_FILE, **served)
        if spec.rows == "float32":
            refuse_difference(served, expected)
        else:
            losses = _reductions(job, loaded.signatures[RANK])
        loaded.release()
    ids = IdsReport.model_validate_json((model / IDS_REPORT_FILE).read_bytes()) if spec.ids else None
    return ExportReport(form=spec.form, rows=spec.rows, model_bytes=size, tasks=losses, seconds=0.0, ids=ids)


def _reductions(job: TrainJob, rank: Any) -> dict[str, TaskLoss]:
    with np.load(full_scores_file(job)) as stored:
        full = dict(stored)
    full_scores_file(job).unlink()
    return reductions(job.ranker, labels_of(job), full, scores_of(rank, evaluation_requests(job)))


def main(job_file: str, parent_pid: str, started: str = "", writer: str = "") -> None:
    """Exports a job's trained state.

    Args:
        job_file: path of the job file.
        parent_pid: id of the parent process.
        started: start in seconds since 1970; given to the restarted process, which checks the model.
        writer: id of the process that writes the model; given to the restarted process.
    """
    end_with_parent(int(parent_pid))
    log_to_stderr()
    job = read_job(Path(job_file))
    if started:
        _wait_for(int(writer))
        check(job, float(started))
        return
    started, own = str(time.time()), os.getpid()
    _LOG.info("start spec_digest=%s", job.spec_digest)
    # TensorFlow has no threads yet: it has run no operation.
    child = os.fork()
    if child == 0:
        end_with_parent(own)
        write(job)
        logging.shutdown()
        os._exit(0)
    command = [sys.executable, "-m", "sangam.trainer_module.export", job_file, parent_pid, started, str(child)]
    os.execv(sys.executable, command)


def _wait_for(writer: int) -> None:
    """Waits for the process that writes the model; exits with its code if it failed."""
    code = os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:5])
    logging.shutdown()
    os._exit(0)  # TensorFlow's cleanup takes half a second, for which the launcher would wait.
