"""A server's part of the dense weights and their optimizer, updated as gradients arrive."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.dense.optimizers import DenseState
from sangam.trainer_module.parameter_server.flat_function import FlatFunction
from sangam.trainer_module.parameter_server.rows import Update
from sangam.trainer_module.ranker import Ranker, with_precision

WEIGHTS = "weights"


def part_of(size: int, server: int, servers: int) -> slice:
    """Returns the slice of `size` weights that a server holds.

    >>> [part_of(10, server, 3) for server in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(size * server // servers, size * (server + 1) // servers)


class DensePart:
    """A part of the dense weights with its optimizer moments."""

    def __init__(self, spec: RankerSpec, arrays: Mapping[str, NDArray[Any]], *, server: int):
        """Takes weights and moments: [part] each, by name."""
        weights = Ranker(with_precision(spec, "float32")).weights
        part = part_of(weights.size, server, spec.num_parameter_servers)
        self._state = DenseState(spec.training.dense_optimizer, weights, seed=spec.training.seed, part=part)
        for name, variable in self._variables().items():
            variable.assign(arrays[name])
        size = tf.TensorSpec([part.stop - part.start], tf.float32)
        number, real = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32)
        self._apply = FlatFunction(self._updated, [size, number, real, real])

    def _variables(self) -> dict[str, tf.Variable]:
        return {WEIGHTS: self._state.flat, **self._state.moments}

    def _updated(self, gradient: tf.Tensor, step: tf.Tensor, scale: tf.Tensor, factor: tf.Tensor) -> list[tf.Tensor]:
        self._state.apply(gradient * scale, step, factor)
        return []

    def apply(self, gradient: NDArray[Any], update: Update) -> None:
        """Updates the weights with a gradient: [part], a sum over examples."""
        self._apply([gradient, np.int64(update.step), np.float32(update.scale), np.float32(update.factor)])

    def weights(self) -> NDArray[Any]:
        """Returns a copy of the weights: [part]."""
        return self._state.flat.numpy().copy()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns copies of weights and moments: [part] each, by name."""
        return {name: variable.numpy().copy() for name, variable in self._variables().items()}
