"""Training of separate dense weights on each rank, averaged in the background; see `own_pace`.

Reference: Zheng et al.: ShadowSync: performing synchronization in the background for highly scalable distributed
training, 2020.
"""

from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.spec.sync import Shadow
from sangam.trainer_module import collectives
from sangam.trainer_module.loop.own_pace import OwnPaceTrainer
from sangam.trainer_module.loop.served import Computed
from sangam.trainer_module.parameter_server.averaging import Averaging
from sangam.trainer_module.parameter_server.client import Servers
from sangam.trainer_module.parameter_server.rows import Update
from sangam.trainer_module.ranker import Ranker

_WEIGHTS = "weights"


class ShadowTrainer(OwnPaceTrainer):
    """Validates, saves and exports the average of the ranks' dense weights, which no rank trains."""

    def __init__(self, ranker: Ranker, servers: Servers, **more: Any):
        """See `OwnPaceTrainer`."""
        initial = ranker.weights.initial(ranker.spec.training.seed)
        self._average = tf.Variable(initial, trainable=False, name="average")
        super().__init__(ranker, servers, model=self._average, **more)
        self._averaging: Averaging | None = None

    def begin(self) -> None:
        """See `Trainer`."""
        self._average.assign(self.dense.flat)
        super().begin()
        assert isinstance(self._sync, Shadow)
        self._averaging = Averaging(self._tables.servers, self._sync, self.dense.flat)

    def close(self) -> None:
        """See `Trainer`."""
        if self._averaging is not None:
            self._averaging.close()

    def _follow(self, message: tf.Tensor) -> Computed:
        result, scale, factor, step = self._graphs.update(message)
        return Computed(result, Update(int(step), float(scale), float(factor)))

    def _after_step(self) -> None:
        assert self._averaging is not None
        self._averaging.after_step()

    def _settle(self) -> None:
        assert self._averaging is not None
        self._averaging.settle()
        super()._settle()

    def _read_model(self) -> None:
        self._average.assign(self._tables.dense()[_WEIGHTS])

    def _dense_vectors(self) -> dict[str, NDArray[Any]]:
        # The average model's moments are the means of the ranks' moments.
        vectors = {
            name: collectives.allreduce_sum(tf.constant(vector), name=f"mean_{name}").numpy() / self.ranks
            for name, vector in super()._dense_vectors().items()
        }
        return vectors | {_WEIGHTS: self._average.numpy()}

    def exchange_report(self) -> dict[str, Any]:
        """See `Trainer`."""
        return {**super().exchange_report(), "gap_steps": self._gaps()}

    def _gaps(self) -> dict[str, float | int | None]:
        """Returns the number of exchanges of all ranks, and the steps between exchanges of one rank."""
        gaps = [] if self._averaging is None else self._averaging.gaps
        own = tf.constant([len(gaps), sum(gaps)], tf.int64)
        number, total = collectives.allreduce_sum(own, name="gaps").numpy().tolist()
        longest = int(collectives.allreduce_max(tf.constant(max(gaps, default=0)), name="longest_gap"))
        return {"exchanges": number, "mean": round(total / number, 2) if number else None, "max": longest}
