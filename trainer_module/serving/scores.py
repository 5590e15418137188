"""Scores of a served model, and their comparison with the ranks' scores."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from schemas.contracts.training_job import TrainJob
from trainer_module.input.local_reader import records

_LOG = logging.getLogger("trainer_module.export")
CHECK_TOLERANCE = 1e-5
_EXAMPLES_AT_ONCE = 4096

Scores = Mapping[str, NDArray[Any]]
"""{task: [examples, 1]}."""


def evaluation_split(job: TrainJob) -> tf.data.Dataset:
    """Returns batches of the raw examples of the evaluation split."""
    return records(job.check_files).batch(_EXAMPLES_AT_ONCE)


def full_scores_file(job: TrainJob) -> Path:
    """Returns the file of the evaluation split's scores with float32 rows, kept while smaller rows are exported."""
    return Path(job.output_dir) / "full_scores.npz"


def scores_of(serve: Callable[..., Mapping[str, tf.Tensor]], batches: Iterable[tf.Tensor]) -> Scores:
    """Returns a signature's scores of one or more batches of serialized examples."""
    answers = [{task: scores.numpy() for task, scores in serve(examples=batch).items()} for batch in batches]
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
