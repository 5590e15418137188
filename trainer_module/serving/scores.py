"""Scores of a served model, and their comparison with the ranks' scores."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.columns import serving_columns
from sangam.schemas.parts.columns import Column
from sangam.trainer_module.input.blocks import Table
from sangam.trainer_module.input.ending import untuned
from sangam.trainer_module.serving.raw_columns import TYPES, inputs_of

_LOG = logging.getLogger("sangam.trainer_module.export")
CHECK_TOLERANCE = 1e-5
_BLOCKS_AT_ONCE = 4

Scores = Mapping[str, NDArray[Any]]
"""{task: [examples, 1]}."""


@tf.autograph.experimental.do_not_convert  # It would take seconds, and nothing here needs it.
def evaluation_split(job: TrainJob, read: Iterable[Column]) -> tf.data.Dataset:
    """Returns columns of the evaluation split in batches, in the form of parsed tf.Examples: {name: SparseTensor}."""
    table = Table({column.name: TYPES[column.type] for column in read})
    blocks = untuned(tf.data.TFRecordDataset(list(job.check_files))).batch(_BLOCKS_AT_ONCE)
    return blocks.map(lambda blocks_W: table.sparse(table.decode(blocks_W)))


@tf.autograph.experimental.do_not_convert  # It would take seconds, and nothing here needs it.
def evaluation_requests(job: TrainJob) -> tf.data.Dataset:
    """Returns the evaluation split in batches, as requests for `rank` in which every row is a candidate."""
    columns = {column.name: column for column in serving_columns(job.ranker)}
    return evaluation_split(job, columns.values()).map(lambda parsed: inputs_of(columns, parsed))


def full_scores_file(job: TrainJob) -> Path:
    """Returns the file of the evaluation split's scores with float32 rows, kept while smaller rows are exported."""
    return Path(job.output_dir) / "full_scores.npz"


def scores_of(signature: Callable[..., Mapping[str, tf.Tensor]], requests: Iterable[Mapping[str, tf.Tensor]]) -> Scores:
    """Returns a signature's scores of the examples of one or more requests."""
    answers = [{task: scores.numpy() for task, scores in signature(**request).items()} for request in requests]
    return {task: np.concatenate([answer[task] for answer in answers]) for task in answers[0]}


def refuse_difference(served: Scores, expected: Scores) -> None:
    """Raises ValueError where two models' scores of the same examples differ."""
    difference = largest_difference(served, expected)
    _LOG.info("check largest_difference=%.3g", difference)
    if not difference <= CHECK_TOLERANCE:
        raise ValueError(
            f"export: the served model's scores differ from the trainer's by {difference:.3g}, "
            f"more than {CHECK_TOLERANCE:g}; training and serving compute different numbers"
        )


def largest_difference(served: Scores, expected: Scores) -> float:
    """Returns the largest difference between two models' scores of the same examples.

    Relative to 1 + |score|, so that a regression task's large numbers count like probabilities.
    """
    return max(
        float(np.max(np.abs(served[task] - scores) / (1.0 + np.abs(scores)), initial=0.0))
        for task, scores in expected.items()
    )
