"""All dense weights in one flat vector: one allreduce and one optimizer update a step for any model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.parts.weight import Weight
from sangam.trainer_module.dense.initial import initial

_LINE = 16
"""Floats in a line of a processor's cache, and what TensorFlow aligns tensors to."""
Weights = Mapping[str, tf.Tensor]
"""Weights by name, each in its own shape."""


def below(prefix: str, weights: Weights) -> dict[str, tf.Tensor]:
    """Returns the weights whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}


class FlatWeights:
    """The layout of weights inside one vector."""

    def __init__(self, weights: Sequence[Weight]):
        names = [weight.name for weight in weights]
        if len(set(names)) != len(names):
            raise ValueError(f"weights: names must be unique (got {names})")
        self.weights = tuple(weights)
        self.size = sum(weight.size for weight in weights)

    def initial(self, seed: int) -> NDArray[Any]:
        """Returns the initial vector: [size] float32."""
        return np.concatenate([initial(weight, seed).ravel() for weight in self.weights])

    def unpack(self, flat: tf.Tensor) -> Weights:
        """Returns views of the vector by name."""
        parts = tf.split(flat, [weight.size for weight in self.weights])
        return {weight.name: tf.reshape(part, weight.shape) for weight, part in zip(self.weights, parts, strict=True)}

    def lines(self, flat: tf.Tensor) -> tf.Tensor:
        """Returns the vector with each weight in lines of its own, the last one filled up with zeros: [lines, 16].

        Weights that begin where lines of a cache do are views of them; of any other vector they are copies.
        """
        parts = tf.split(flat, [weight.size for weight in self.weights])
        filled = [tf.pad(part, [[0, -weight.size % _LINE]]) for part, weight in zip(parts, self.weights, strict=True)]
        return tf.reshape(tf.concat(filled, 0), [-1, _LINE])

    def unpack_lines(self, lines: tf.Tensor) -> Weights:
        """Returns the weights of `lines` by name."""
        parts = tf.split(lines, [-(-weight.size // _LINE) for weight in self.weights])
        found = {}
        for weight, part in zip(self.weights, parts, strict=True):
            whole = part if weight.size % _LINE == 0 else tf.reshape(part, [-1])[: weight.size]
            found[weight.name] = tf.reshape(whole, weight.shape)
        return found

    def by_name(self, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Returns the parts of a vector as arrays by name."""
        ends = np.cumsum([weight.size for weight in self.weights])[:-1]
        parts = np.split(flat, ends)
        return {weight.name: part.reshape(weight.shape) for weight, part in zip(self.weights, parts, strict=True)}
