"""A network for each task: the baseline, in which tasks share only embeddings and the interaction of features."""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.spec.models import SingleTask
from sangam.trainer_module.dense.layers import Heads, ParallelMlps
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.models.ranking_model import NoAuxiliary

# Shape suffixes: B batch, I inputs, T tasks.


class SingleTaskModel(NoAuxiliary):
    """y_k = h_k(x)."""

    def __init__(self, spec: SingleTask, tasks: Sequence[str]):
        self._towers = ParallelMlps("towers", len(spec.tower_units), tasks, dropout=spec.dropout)
        self._heads = Heads(tasks)
        self.shared: tuple[str, ...] = ()

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        return self._heads(weights, self._towers(weights, x_BI, noise))
