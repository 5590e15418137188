"""From the trained state to a SavedModel: `python -m trainer_module.export JOB PID`.

Raw examples in, predictions out: Transform's graph, the rows in the declared form, and the same ranker as in training.
The form `stock` is made of TensorFlow's own operations: TensorFlow Serving, TFMA and Beam load it with nothing of ours
installed.
"""

import gc
import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from typing_extensions import assert_never

from schemas.groups import Group
from schemas.serving import Export
from trainer_module.check import read_check
from trainer_module.checkpoint.manifest import read_manifest
from trainer_module.checkpoint.restore import read_dense
from trainer_module.input import records
from trainer_module.job import TrainJob, read_job
from trainer_module.processes import end_with_parent
from trainer_module.ranker import Ranker
from trainer_module.serving.description import description, write_extras
from trainer_module.serving.reduction import Scores, labels_of, reductions, scores_of
from trainer_module.serving.signatures import DEFAULT, ServedRanker
from trainer_module.serving.stock_table import StockTable
from trainer_module.serving.table import ServedTable
from trainer_module.serving.trained_rows import TrainedRows, read_trained

_LOG = logging.getLogger("trainer_module.export")
CHECK_TOLERANCE = 1e-5
EXPORT_FILE, SERVED_SCORES = "export.json", "served_scores.npz"
_EXAMPLES_AT_ONCE = 4096


def export(job: TrainJob) -> None:
    """Writes the SavedModel and its report, whole or not at all, after it has given the ranks' own scores.

    Raises:
        ValueError: when its scores differ from the ranks', or there is nothing to measure the cost of smaller rows on.
    """
    started = time.monotonic()
    declared, output_dir, final = job.ranker.export, Path(job.output_dir), Path(job.model_dir)
    is_reduced = declared.rows != "float32"
    if is_reduced and not job.check_files:
        raise ValueError(
            f"export.rows: the cost of {declared.rows} is measured on the evaluation split (got no examples); "
            "use float32"
        )
    full = _full_scores(job) if is_reduced else None
    # Modules and their functions refer to each other: left to themselves, two models' rows would be held at a time.
    gc.collect()
    aside = final.with_name(f".{final.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    _save(job, aside)
    gc.collect()
    report: dict[str, Any] = {"form": declared.form, "rows": declared.rows, "model_bytes": _size(aside), "tasks": {}}
    if job.check_files:
        raw, expected = read_check(output_dir)
        loaded = tf.saved_model.load(str(aside))
        serve = loaded.signatures[DEFAULT]
        served = scores_of(serve, [tf.constant(raw, tf.string)])
        np.savez(output_dir / SERVED_SCORES, **served)
        if full is None:
            _refuse_difference(served, expected)
        else:
            labels = labels_of(job.ranker, _evaluation_split(job))
            report["tasks"] = reductions(job.ranker, labels, full, scores_of(serve, _evaluation_split(job)))
        loaded.release()
    report["seconds"] = round(time.monotonic() - started, 3)
    _LOG.info("exported %s", " ".join(f"{name}={value}" for name, value in report.items()))
    (output_dir / EXPORT_FILE).write_text(json.dumps(report, indent=2) + "\n")
    os.rename(aside, final)


def served_ranker(job: TrainJob, declared: Export) -> ServedRanker:
    """Returns the trained ranker as it is served, exported as declared or in another way."""
    checkpoint = Path(job.final_checkpoint)
    manifest, ranker = read_manifest(checkpoint), Ranker(job.ranker)
    dense = read_dense(checkpoint, manifest)
    flat = np.concatenate([dense[f"weights/{weight.name}"].ravel() for weight in ranker.weights.weights])
    tables = {
        name: _table(declared, group, read_trained(checkpoint, manifest, group))
        for name, group in ranker.groups.items()
    }
    return ServedRanker(ranker, tft.TFTransformOutput(job.transform_graph), flat, tables)


def _table(declared: Export, group: Group, trained: TrainedRows) -> ServedTable:
    match declared.form:
        case "stock":
            return StockTable(group, declared.rows, trained)
        case "tfra":
            # Imported late: the other form needs nothing of TFRA.
            from trainer_module.serving.tfra_table import TfraTable

            return TfraTable(group, declared.rows, trained)
        case _:
            assert_never(declared.form)


def _save(job: TrainJob, target: Path) -> None:
    declared = job.ranker.export
    served = served_ranker(job, declared)
    signatures = served.signatures()
    options = tf.saved_model.SaveOptions(namespace_whitelist=["TFRA"] if declared.form == "tfra" else [])
    tf.saved_model.save(served, str(target), signatures=signatures, options=options)
    examples = read_check(Path(job.output_dir))[0] if job.check_files else []
    write_extras(target, description(job.ranker, job.spec_digest, served, signatures), examples)
    served.release()


def _full_scores(job: TrainJob) -> Scores:
    """Returns the scores of the evaluation split with float32 rows, with which the ranks' own scores must be got."""
    served = served_ranker(job, Export())
    raw, expected = read_check(Path(job.output_dir))
    _refuse_difference(scores_of(served.serve_examples, [tf.constant(raw, tf.string)]), expected)
    scores = scores_of(served.serve_examples, _evaluation_split(job))
    served.release()
    return scores


def _evaluation_split(job: TrainJob) -> tf.data.Dataset:
    return records(job.check_files).batch(_EXAMPLES_AT_ONCE)


def _refuse_difference(served: Scores, expected: Scores) -> None:
    difference = largest_difference(served, expected)
    _LOG.info("check largest_difference=%.3g", difference)
    if not difference <= CHECK_TOLERANCE:
        raise ValueError(
            f"export: the served model's scores differ from the trainer's by {difference:.3g}, "
            f"more than {CHECK_TOLERANCE:g}; training and serving do not compute the same"
        )


def largest_difference(served: Scores, expected: Scores) -> float:
    """Returns the largest difference between two models' scores of the same examples.

    Relative to 1 + |score|, so that a regression task's large numbers count like probabilities.
    """
    return max(
        float(np.max(np.abs(served[task] - scores) / (1.0 + np.abs(scores)), initial=0.0))
        for task, scores in expected.items()
    )


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def main(job_file: str, parent_pid: str) -> None:
    """Exports a job's trained state."""
    end_with_parent(int(parent_pid))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    job = read_job(Path(job_file))
    _LOG.info("start spec_digest=%s", job.spec_digest)
    export(job)


if __name__ == "__main__":
    main(*sys.argv[1:3])
