"""Small models with random weights, as float32 for the engine and float64 for the oracles."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.weights import model_weights
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.weight import Weight
from sangam.schemas.spec.models import Model
from sangam.trainer_module.dense.weights import FlatWeights
from sangam.trainer_module.models import RankingModel, build_model

TASKS = ("click", "like", "buy")
INPUTS = ModelInputs(floats=(("age", 1), ("hour", 2)), embeddings=(("user", 4), ("item", 4), ("tags", 4)))
WIDTH = 15
NUM_FLOATS = 3


class Small(NamedTuple):
    """A model, its weights, and examples."""

    model: RankingModel
    declared: list[Weight]
    size: int
    weights: dict[str, tf.Tensor]
    oracle: dict[str, NDArray[Any]]
    x: NDArray[Any]

    def logits(self, **options: Any) -> NDArray[Any]:
        return self.model(self.weights, tf.constant(self.x), **options).numpy()


def weights_of(
    declared: Sequence[Weight], *, seed: int = 0, scale: float = 0.7
) -> tuple[dict[str, tf.Tensor], dict[str, Any]]:
    layout = FlatWeights(declared)
    flat = np.random.default_rng(seed).normal(size=layout.size, scale=scale).astype(np.float32)
    arrays = layout.by_name(flat)
    return {name: tf.constant(array) for name, array in arrays.items()}, {
        name: array.astype(np.float64) for name, array in arrays.items()
    }


def examples(number: int = 5) -> NDArray[Any]:
    return np.random.default_rng(1).normal(size=(number, WIDTH)).astype(np.float32)


def small(declared: Model, tasks: tuple[str, ...] = TASKS) -> Small:
    model = build_model(declared, inputs=INPUTS, tasks=tasks)
    of_model = model_weights(declared, INPUTS, tasks)
    weights, oracle = weights_of(of_model)
    return Small(model, of_model, FlatWeights(of_model).size, weights, oracle, examples())
