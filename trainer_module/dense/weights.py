"""All dense weights in one flat vector: one allreduce and one optimizer update a step, whatever the model."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from typing_extensions import assert_never

Weights = Mapping[str, tf.Tensor]
"""Weights by name, each in its own shape."""

Blocks = tuple[tuple[str, int], ...]
"""Named runs of positions along an axis."""

Axis = int | Blocks
"""An axis of a weight: how many positions it has, or the named runs that it consists of."""


def width_of(axis: Axis) -> int:
    """Returns the number of positions of an axis."""
    return axis if isinstance(axis, int) else sum(size for _, size in axis)


def blocks_of(*axes: Axis) -> tuple[Blocks | None, ...]:
    """Returns the `blocks` of a weight with these axes; empty where none is named."""
    blocks = tuple(None if isinstance(axis, int) else axis for axis in axes)
    return blocks if any(blocks) else ()


@dataclass(frozen=True)
class Weight:
    """One weight of a layer.

    Attributes:
        name: unique in the model, `layer/part`.
        shape: of the tensor.
        start: `glorot`: uniform in +-sqrt(6 / (fan in + fan out)) over the last two dimensions (Glorot, Bengio:
            Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010, equation 16);
            `signs`: -1 or 1, as likely; `normal`: with mean 0.
        deviation: of a normal start.
        columns: how many equal blocks of columns are separate matrices, each with its own fan out.
        blocks: for each axis, None or the named runs of positions it consists of, (name, size) in turn. After a feature
            or a task was added or removed, a warm start finds the rest of the weight by these names.
    """

    name: str
    shape: tuple[int, ...]
    start: Literal["glorot", "zeros", "ones", "signs", "normal"] = "glorot"
    deviation: float = 1.0
    columns: int = 1
    blocks: tuple[Blocks | None, ...] = ()

    @property
    def size(self) -> int:
        """Number of floats."""
        return math.prod(self.shape)

    def initial(self, seed: int) -> NDArray[Any]:
        """Returns the initial value, a function of the seed and the weight's name alone: equal on all ranks."""
        match self.start:
            case "zeros":
                return np.zeros(self.shape, np.float32)
            case "ones":
                return np.ones(self.shape, np.float32)
            case "signs":
                return self._generator(seed).choice(np.array([-1, 1], np.float32), self.shape)
            case "glorot":
                limit = math.sqrt(6.0 / (self.shape[-2] + self.shape[-1] / self.columns))
                return self._generator(seed).uniform(-limit, limit, self.shape).astype(np.float32)
            case "normal":
                return self._generator(seed).normal(0.0, self.deviation, self.shape).astype(np.float32)
            case _:
                assert_never(self.start)

    def _generator(self, seed: int) -> np.random.Generator:
        digest = hashlib.sha256(f"{seed}/{self.name}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little"))


class Layer(Protocol):
    """Anything that has weights."""

    @property
    def weights(self) -> tuple[Weight, ...]:
        """Its weights."""


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
        return np.concatenate([weight.initial(seed).ravel() for weight in self.weights])

    def unpack(self, flat: tf.Tensor) -> Weights:
        """Returns views of the vector by name."""
        parts = tf.split(flat, [weight.size for weight in self.weights])
        return {weight.name: tf.reshape(part, weight.shape) for weight, part in zip(self.weights, parts, strict=True)}

    def by_name(self, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Returns the parts of a vector as arrays by name."""
        ends = np.cumsum([weight.size for weight in self.weights])[:-1]
        parts = np.split(flat, ends)
        return {weight.name: part.reshape(weight.shape) for weight, part in zip(self.weights, parts, strict=True)}
