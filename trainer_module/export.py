"""From the trained state to a SavedModel: `python -m trainer_module.export JOB PID`.

Raw examples in, predictions out: Transform's graph, the rows in the declared form, and the same ranker as in training.
The form `stock` is made of TensorFlow's own operations: TensorFlow Serving, TFMA and Beam load it with nothing of ours
installed.

It is written first, by `trainer_module.serving.writing`. Then the process starts itself anew, with nothing but
TensorFlow in it, and loads the model as a server does.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from trainer_module.check import read_check
from trainer_module.job import TrainJob, read_job
from trainer_module.processes import end_with_parent
from trainer_module.serving.operations import load_operations
from trainer_module.serving.reduction import labels_of, reductions
from trainer_module.serving.scores import evaluation_split, full_scores_file, refuse_difference, scores_of

_LOG = logging.getLogger("trainer_module.export")
EXPORT_FILE, SERVED_SCORES = "export.json", "served_scores.npz"
_SERVE = "serving_default"


def export(job: TrainJob) -> None:
    """Writes the SavedModel and its report, whole or not at all, after it has given the ranks' own scores.

    Raises:
        ValueError: when its scores differ from the ranks', or there is nothing to measure the cost of smaller rows on.
    """
    started = time.time()
    write(job)
    check(job, started)


def write(job: TrainJob) -> None:
    """Writes the model aside."""
    # Imported late: what checks a model needs nothing of what writes it.
    from trainer_module.serving.writing import write

    write(job, _aside(job))


def check(job: TrainJob, started: float) -> None:
    """Loads the model that lies aside, compares its scores, writes the report and publishes it by one rename.

    Args:
        job: whose model it is.
        started: when the export began, seconds since 1970.
    """
    aside, output_dir, declared = _aside(job), Path(job.output_dir), job.ranker.export
    size = sum(path.stat().st_size for path in aside.rglob("*") if path.is_file())
    report: dict[str, Any] = {"form": declared.form, "rows": declared.rows, "model_bytes": size, "tasks": {}}
    if job.check_files:
        load_operations(declared.form)
        loaded = tf.saved_model.load(str(aside))
        raw, expected = read_check(output_dir)
        served = scores_of(loaded.signatures[_SERVE], [tf.constant(raw, tf.string)])
        np.savez(output_dir / SERVED_SCORES, **served)
        if declared.rows == "float32":
            refuse_difference(served, expected)
        else:
            report["tasks"] = _reductions(job, loaded.signatures[_SERVE])
        loaded.release()
    report["seconds"] = round(time.time() - started, 3)
    _LOG.info("exported %s", " ".join(f"{name}={value}" for name, value in report.items()))
    (output_dir / EXPORT_FILE).write_text(json.dumps(report, indent=2) + "\n")
    os.rename(aside, job.model_dir)


def _reductions(job: TrainJob, serve: Any) -> dict[str, dict[str, Any]]:
    with np.load(full_scores_file(job)) as stored:
        full = dict(stored)
    full_scores_file(job).unlink()
    labels = labels_of(job.ranker, evaluation_split(job))
    return reductions(job.ranker, labels, full, scores_of(serve, evaluation_split(job)))


def _aside(job: TrainJob) -> Path:
    final = Path(job.model_dir)
    return final.with_name(f".{final.name}.tmp")


def main(job_file: str, parent_pid: str, started: str = "") -> None:
    """Exports a job's trained state.

    Args:
        job_file: of the job.
        parent_pid: who started this process.
        started: when; given to a process that is to check what it has written.
    """
    end_with_parent(int(parent_pid))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    job = read_job(Path(job_file))
    if started:
        check(job, float(started))
        return
    started = str(time.time())
    _LOG.info("start spec_digest=%s", job.spec_digest)
    write(job)
    os.execv(sys.executable, [sys.executable, "-m", "trainer_module.export", job_file, parent_pid, started])


if __name__ == "__main__":
    main(*sys.argv[1:4])
