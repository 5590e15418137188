"""The ranks' scores of a few raw examples, which the exported model must reproduce."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.export import CHECK_EXAMPLES_FILE, CHECK_SCORES_FILE
from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.input.batch import Batch, Layout, values_and_lengths
from sangam.trainer_module.input.example_reader import reader_of
from sangam.trainer_module.input.raw_examples import first_examples
from sangam.trainer_module.transforms.graph import transform_graph

NUM_CHECKED = 512


def write_check(job: TrainJob, rank: int, predict: Callable[[Batch | None], dict[str, NDArray[Any]]]) -> None:
    """Scores the first raw examples with the live tables. All ranks call it together; rank 0 writes the files.

    Args:
        job: the job; has the paths of the examples and of the output folder.
        rank: this rank.
        predict: `Trainer.predict`.
    """
    if not job.check_files:
        return
    raw = [] if rank else first_examples(job.check_files, NUM_CHECKED)
    scores = predict(_transformed(job, raw) if raw else None)
    if rank == 0:
        with tf.io.TFRecordWriter(str(Path(job.output_dir) / CHECK_EXAMPLES_FILE)) as writer:
            for example in raw:
                writer.write(example)
        np.savez(Path(job.output_dir) / CHECK_SCORES_FILE, **scores)


def read_check(output_dir: Path) -> tuple[list[bytes], dict[str, NDArray[Any]]]:
    """Returns the raw examples and the ranks' scores: {task: [n, 1]}."""
    raw = list(tf.data.TFRecordDataset(str(output_dir / CHECK_EXAMPLES_FILE)).as_numpy_iterator())
    with np.load(output_dir / CHECK_SCORES_FILE) as stored:
        return raw, dict(stored)


def _transformed(job: TrainJob, raw: list[bytes]) -> Batch:
    """Returns raw examples as a batch, transformed as in training; the exported model has Transform's graph."""
    if job.transform == "ahead":
        transform = transform_graph(job.transform_graph)
        return Layout(job.ranker).pack(transform(_parsed(raw, transform.columns)))
    reader = reader_of(job)
    columns = _parsed(raw, reader.table.types)
    rows = {group: values_and_lengths([columns[name] for name in names]) for group, names in reader.table.names.items()}
    return reader.batch_of(rows)


def _parsed(raw: list[bytes], types: Mapping[str, tf.DType]) -> dict[str, tf.SparseTensor]:
    parsed: dict[str, tf.SparseTensor] = tf.io.parse_example(
        tf.constant(raw), {name: tf.io.VarLenFeature(kind) for name, kind in types.items()}
    )
    return parsed
