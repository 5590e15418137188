"""The first half of an export: from the checkpoint to a SavedModel that is not checked yet."""

from pathlib import Path
from typing import assert_never

import numpy as np
import tensorflow as tf

from sangam.schemas.contracts.export import RANK
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.groups import Group
from sangam.schemas.host.files import remove_folder
from sangam.schemas.spec.serving import Export
from sangam.trainer_module.check_scores import read_check
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import read_dense
from sangam.trainer_module.dense.average import exported_weights
from sangam.trainer_module.ranker import Ranker, with_precision
from sangam.trainer_module.serving.description import description, write_extras
from sangam.trainer_module.serving.ids import write_ids
from sangam.trainer_module.serving.scores import evaluation_requests, full_scores_file, refuse_difference, scores_of
from sangam.trainer_module.serving.shards import OwnFiles
from sangam.trainer_module.serving.signatures import ServedRanker
from sangam.trainer_module.serving.stock_table import StockTable
from sangam.trainer_module.serving.table import ServedTable
from sangam.trainer_module.serving.trained_rows import TrainedRows, read_trained
from sangam.trainer_module.transforms.graph import TransformGraph


def write(job: TrainJob, target: Path) -> None:
    """Writes the SavedModel and the files beside the graph; for smaller rows also the scores with float32 rows.

    Raises:
        ValueError: when float32 rows do not reproduce the ranks' own scores, or there is nothing to score.
    """
    if job.ranker.export.rows != "float32":
        _write_full_scores(job)
    remove_folder(target)
    spec = job.ranker.export
    served = served_ranker(job, spec)
    signatures = served.signatures()
    own_files = OwnFiles(served.table_variables())
    options = tf.saved_model.SaveOptions(
        namespace_whitelist=["TFRA"] if spec.form == "tfra" else [],
        experimental_sharding_callback=own_files,
        # Nobody learns from what is served.
        experimental_custom_gradients=False,
    )
    tf.saved_model.save(served, str(target), signatures=signatures, options=options)
    examples = read_check(Path(job.output_dir))[0] if job.check_files else []
    described = description(job.ranker, job.spec_digest, served, signatures, own_files.files)
    write_extras(target, described, served, examples)
    served.release()
    if spec.ids:
        write_ids(job, target)


def _write_full_scores(job: TrainJob) -> None:
    if not job.check_files:
        raise ValueError(
            f"export.rows: the cost of {job.ranker.export.rows} is measured on the evaluation split (got no examples); "
            "use float32"
        )
    served = served_ranker(job, Export())
    raw, expected = read_check(Path(job.output_dir))
    refuse_difference(scores_of(served.serve_examples, [{"examples": tf.constant(raw, tf.string)}]), expected)
    rank = served.signatures()[RANK]
    np.savez(full_scores_file(job), **scores_of(lambda **inputs: rank(inputs), evaluation_requests(job)))
    served.release()


def served_ranker(job: TrainJob, spec: Export) -> ServedRanker:
    """Returns the served form of the trained ranker."""
    checkpoint = Path(job.final_checkpoint)
    manifest = read_manifest(checkpoint)
    ranker = Ranker(with_precision(job.ranker, manifest.dense_precision), manifest.calibrations)
    dense = read_dense(checkpoint, manifest)
    kind = exported_weights(dense)
    flat = np.concatenate([dense[f"{kind}/{weight.name}"].ravel() for weight in ranker.weights.weights])
    tables = {
        name: _table(spec, group, read_trained(checkpoint, manifest, group)) for name, group in ranker.groups.items()
    }
    return ServedRanker(ranker, TransformGraph(job.transform_graph), flat, tables)


def _table(spec: Export, group: Group, trained: TrainedRows) -> ServedTable:
    match spec.form:
        case "stock":
            return StockTable(group, spec.rows, trained)
        case "tfra":
            # Imported late: the other form does not need TFRA.
            from sangam.trainer_module.serving.tfra_table import TfraTable

            return TfraTable(group, spec.rows, trained)
        case _:
            assert_never(spec.form)
