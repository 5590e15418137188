"""One network for all tasks, then a tower each.

Reference: Caruana: Multitask learning, Machine Learning 28, 1997; as in Ma et al., KDD 2018, section 3.1.
"""

from collections.abc import Sequence

import tensorflow as tf

from sangam.schemas.spec.models import SharedBottom
from sangam.trainer_module.dense.layers import ParallelMlps, Towers
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.split import Input
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.models.ranking_model import NoAuxiliary

# Shape suffixes: B batch, I inputs, H width of the bottom's output, T tasks.


class SharedBottomModel(NoAuxiliary):
    """y_k = h_k(f(x))."""

    def __init__(self, spec: SharedBottom, tasks: Sequence[str]):
        self._num_tasks = len(tasks)
        self._bottom = ParallelMlps("bottom", len(spec.bottom_units), 1, dropout=spec.dropout)
        self._towers = Towers(tasks, len(spec.tower_units), dropout=spec.dropout)
        self.shared = tuple(dict.fromkeys(self._bottom.last.values()))

    def __call__(self, weights: Weights, x_BI: Input, noise: Noise | None = None) -> tf.Tensor:
        """See `RankingModel`."""
        [bottom_BH] = self._bottom(weights, x_BI, noise)
        return self._towers(weights, [bottom_BH] * self._num_tasks, noise)
