"""One user's candidates, scored by an exported model: rows that they share come once, or are repeated for each."""

from collections.abc import Callable, Iterable, Mapping

import tensorflow as tf

from sangam.schemas.contracts.export import RANK
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.rank_inputs import LENGTH
from sangam.trainer_module.serving.scores import evaluation_requests, largest_difference, scores_of

_Request = Mapping[str, tf.Tensor]


def difference(job: TrainJob, of_candidates: Iterable[str]) -> float:
    """Returns the largest difference between scores of shared rows and of repeated ones.

    Args:
        job: a job whose model was exported, with check examples.
        of_candidates: columns that candidates do not share; then those alone are shared.
    """
    model = tf.saved_model.load(job.model_dir)
    rank, [request] = model.signatures[RANK], evaluation_requests(job)
    own = {name for name in request for column in of_candidates if name in (column, column + LENGTH)}
    return max(_difference(rank, request, shared) for shared in (set(request) - own, own))


def _difference(rank: Callable[..., Mapping[str, tf.Tensor]], request: _Request, shared: set[str]) -> float:
    lengths = [each for name, each in request.items() if name.endswith(LENGTH)]
    row = int(tf.argmax(tf.add_n(lengths)))  # An empty list would hide what is done with its values.
    rows = max(int(tf.shape(each)[0]) for each in request.values())
    once = {name: each[row : row + 1] if name in shared else each for name, each in request.items()}
    repeated = {name: tf.repeat(each, rows, axis=0) if name in shared else each for name, each in once.items()}
    return largest_difference(scores_of(rank, [once]), scores_of(rank, [repeated]))
