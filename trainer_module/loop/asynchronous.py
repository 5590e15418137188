"""Training without exchange among ranks: the dense weights are on the parameter servers too; see `own_pace`.

Reference: Liu et al.: Monolith: real time recommendation system with collisionless embedding table, 2022, section 2.2.
"""

import tensorflow as tf

from sangam.trainer_module.loop.own_pace import OwnPaceTrainer
from sangam.trainer_module.loop.served import Computed
from sangam.trainer_module.parameter_server.rows import Update


class AsyncTrainer(OwnPaceTrainer):
    """Receives dense weights with a batch's rows, and sends their gradient with those of the rows."""

    def _follow(self, message: tf.Tensor) -> Computed:
        result, scale, factor, step, gradient = self._graphs.of_own(message)
        return Computed(result, Update(int(step), float(scale), float(factor)), gradient.numpy())

    def _read_model(self) -> None:
        for name, vector in self._tables.dense().items():
            self._flats()[name].assign(vector)
