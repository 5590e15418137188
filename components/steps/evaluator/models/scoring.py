"""Scores blocks of examples with the candidate and the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.components.steps.evaluator.models.loaded import load
from sangam.schemas.contracts.export import BLOCKS, feature_of_known_ids


@dataclass(frozen=True)
class Models:
    """The models to compare.

    Attributes:
        paths: paths of SavedModels, by the name of the model.
        knows_ids: model whose known ids are asked for; None if no slice needs them.
    """

    paths: Mapping[str, str]
    knows_ids: str | None = None


@dataclass(frozen=True)
class Scores:
    """The models' outputs for examples.

    Attributes:
        by_model: predictions by the name of the model, and by task.
        known_ids: mask by feature: whether the model has a row for each example's id; empty if no slice needs it.
    """

    by_model: Mapping[str, Mapping[str, NDArray[Any]]]
    known_ids: Mapping[str, NDArray[np.bool_]]


def scores_of(blocks: Sequence[bytes], models: Models) -> Scores:
    """Returns the models' outputs for the rows of decompressed blocks."""
    records = tf.constant(blocks, tf.string)
    found = {name: call(load(path), records) for name, path in models.paths.items()}
    known = found[models.knows_ids][1] if models.knows_ids is not None else {}
    return Scores({name: _arrays(predictions) for name, (predictions, _) in found.items()}, _arrays(known))


def call(model: Any, blocks: Any) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Returns a loaded model's predictions for the rows of blocks by task, and its known ids by feature."""
    predictions, known = {}, {}
    # By name: given a positional argument, TensorFlow first formats all blocks into an unused error message.
    for name, values in model.signatures[BLOCKS](blocks=tf.convert_to_tensor(blocks, tf.string)).items():
        feature = feature_of_known_ids(name)
        if feature is None:
            predictions[name] = values
        else:
            known[feature] = values
    return predictions, known


def _arrays(outputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {name: values.numpy() for name, values in outputs.items()}
