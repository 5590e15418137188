"""From the trained state to a SavedModel of stock TensorFlow operations: `python -m trainer_module.export JOB PID`.

Raw examples in, predictions out: Transform's graph, sorted keys with `searchsorted` in place of hash tables, and the
same ranker as in training. TensorFlow Serving, TFMA and Beam load it with nothing of ours installed.
"""

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray

from schemas.groups import Group
from trainer_module.check import as_batch, read_check
from trainer_module.checkpoint.files import CheckpointError
from trainer_module.checkpoint.manifest import Manifest, read_manifest
from trainer_module.checkpoint.restore import read_dense, read_parts
from trainer_module.job import TrainJob, read_job
from trainer_module.keys import tags_of
from trainer_module.processes import end_with_parent
from trainer_module.ranker import Ranker

_LOG = logging.getLogger("trainer_module.export")
CHECK_TOLERANCE = 1e-5


class FrozenTable(tf.Module):
    """Embeddings of one group of tables, read-only: an unknown id reads as its table's default and changes nothing."""

    def __init__(self, keys: NDArray[Any], embeddings: NDArray[Any], group: Group):
        """Takes sorted keys [n] int64 and their embeddings [n, dim] float32."""
        super().__init__()
        # Behind the rows, what unknown ids read: a row for each tag, zeros for `NO_ID`, whose tag is 0.
        defaults = np.zeros([max(group.tags.values()) + 1, group.dim], np.float32)
        for table, tag in group.tags.items():
            defaults[tag] = group.tables[table].default_value
        # One key at least, so that an empty table can be searched.
        self._keys = tf.Variable(keys if len(keys) else np.zeros(1, np.int64), trainable=False)
        self._rows = tf.Variable(np.concatenate([embeddings, defaults]), trainable=False)
        self._num_rows, self._last_tag = len(keys), len(defaults) - 1

    def __call__(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns [n, dim] for [n] int64 keys."""
        places = tf.minimum(tf.searchsorted(self._keys, keys, out_type=tf.int64), max(self._num_rows - 1, 0))
        is_known = tf.equal(tf.gather(self._keys, places), keys) & (self._num_rows > 0)
        unknown = self._num_rows + tf.cast(tf.minimum(tags_of(keys), self._last_tag), tf.int64)
        return tf.gather(self._rows, tf.where(is_known, places, unknown))


class ServedRanker(tf.Module):
    """What is served: raw tf.Examples in, one prediction per task out."""

    def __init__(self, ranker: Ranker, transform: tft.TFTransformOutput, checkpoint: Path):
        super().__init__()
        self._ranker = ranker
        manifest = read_manifest(checkpoint)
        self._flat = tf.Variable(_flat_weights(checkpoint, manifest, ranker), trainable=False)
        self._tables = {
            name: FrozenTable(*embeddings_of(checkpoint, manifest, group), group)
            for name, group in ranker.groups.items()
        }
        self._transform = transform.transform_features_layer()
        read = {ranker.declared.column_of(feature) for feature in ranker.declared.features}
        self._columns = {name: spec for name, spec in transform.raw_feature_spec().items() if name in read}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")], autograph=False)
    def serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {task: [batch, 1]} for serialized raw tf.Examples [batch]."""
        batch = as_batch(self._transform(tf.io.parse_example(examples, self._columns)))
        embeddings = {group: self._tables[group](keys) for group, keys in self._ranker.keys(batch).items()}
        return self._ranker.predictions(self._ranker.logits(self._ranker.weights.unpack(self._flat), batch, embeddings))


def _flat_weights(checkpoint: Path, manifest: Manifest, ranker: Ranker) -> NDArray[Any]:
    dense = read_dense(checkpoint, manifest)
    return np.concatenate([dense[f"weights/{weight.name}"].ravel() for weight in ranker.weights.weights])


def embeddings_of(checkpoint: Path, manifest: Manifest, group: Group) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns all keys of a group, sorted, and their embeddings without slots: [n] int64, [n, dim] float32.

    Raises:
        CheckpointError: when a file is damaged or a key has two owners.
    """
    parts = [(keys, rows[:, : group.dim]) for keys, rows in read_parts(checkpoint, manifest, group.name)]
    keys = np.concatenate([keys for keys, _ in parts])
    order = np.argsort(keys)
    keys = keys[order]
    if np.any(keys[1:] == keys[:-1]):
        raise CheckpointError(f"{checkpoint}: a key of {group.name} has two owners; train anew with mode: full")
    return keys, np.concatenate([rows for _, rows in parts])[order]


def export(job: TrainJob) -> None:
    """Writes the SavedModel, whole or not at all, after it has given the ranks' own scores.

    Raises:
        ValueError: when its scores differ from the ranks'.
    """
    served = ServedRanker(Ranker(job.ranker), tft.TFTransformOutput(job.transform_graph), Path(job.final_checkpoint))
    final = Path(job.model_dir)
    aside = final.with_name(f".{final.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    tf.saved_model.save(served, str(aside), signatures={"serving_default": served.serve_examples})
    if job.check_files:
        difference = largest_difference(aside, Path(job.output_dir))
        _LOG.info("check largest_difference=%.3g", difference)
        if not difference <= CHECK_TOLERANCE:
            raise ValueError(
                f"export: the served model's scores differ from the trainer's by {difference:.3g}, "
                f"more than {CHECK_TOLERANCE:g}; training and serving do not compute the same"
            )
    os.rename(aside, final)


def largest_difference(model_dir: Path, output_dir: Path) -> float:
    """Returns the largest difference between a SavedModel's scores and the ranks' on the checked examples.

    Relative to 1 + |score|, so that a regression task's large numbers count like probabilities.
    """
    raw, scores = read_check(output_dir)
    served = tf.saved_model.load(str(model_dir)).signatures["serving_default"](examples=tf.constant(raw))
    return max(
        float(np.max(np.abs(served[task].numpy() - expected) / (1.0 + np.abs(expected))))
        for task, expected in scores.items()
    )


def main(job_file: str, parent_pid: str) -> None:
    """Exports a job's trained state."""
    end_with_parent(int(parent_pid))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    job = read_job(Path(job_file))
    _LOG.info("start spec_digest=%s", job.spec_digest)
    export(job)


if __name__ == "__main__":
    main(*sys.argv[1:3])
