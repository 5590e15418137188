"""Scores a few examples with an exported model, before Beam scores all of them."""

from typing import Any

import tensorflow as tf

from sangam.components.examples import reading
from sangam.components.steps.evaluator.models.examples import sources
from sangam.components.steps.evaluator.models.loaded import load
from sangam.schemas.contracts.export import SERVE

MISFITS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    FileNotFoundError,
    KeyError,
    ValueError,
)
"""Errors of a model that does not fit the examples. Any other, such as unreachable storage or too little memory, may be
transient and must not let a worse model through: it ends the run."""
_PROBE_EXAMPLES = 64


def first_examples(examples: Any, split: str) -> list[bytes]:
    """Returns the first serialized examples of a split."""
    return reading.first_examples(sources(examples, split), _PROBE_EXAMPLES)


def score(path: str, records: list[bytes]) -> dict[str, tf.Tensor]:
    """Returns the outputs of a SavedModel for the records, by name."""
    return call(load(path), SERVE, tf.constant(records, tf.string))


def call(model: Any, signature: str, records: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the outputs of a signature of a loaded model for serialized examples, by name."""
    function = model.signatures[signature]
    # By name: given a positional argument, TensorFlow first formats all records into an unused error message.
    (argument,) = function.structured_input_signature[1]
    outputs: dict[str, tf.Tensor] = function(**{argument: records})
    return outputs


def in_short(error: Exception) -> str:
    """Returns the line with the cause, which TensorFlow puts between the graph's traceback and the nodes' names."""
    lines = [line.strip() for line in str(error).split("[[")[0].splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
