"""Scores a few examples with an exported model, before Beam scores all of them."""

from typing import Any

import pyarrow as pa
import tensorflow as tf

from sangam.components.examples.blocks import plain
from sangam.components.steps.evaluator.models.examples import first_block
from sangam.components.steps.evaluator.models.loaded import columns_of, load
from sangam.components.steps.evaluator.models.scoring import call
from sangam.schemas.contracts.export import BLOCKS

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


def first_examples(examples: Any, split: str) -> pa.RecordBatch | None:
    """Returns the first examples of a split; None without any."""
    return first_block(examples, split, _PROBE_EXAMPLES)


def score(path: str, examples: pa.RecordBatch) -> dict[str, tf.Tensor]:
    """Returns a SavedModel's predictions of examples, by task.

    Raises:
        ValueError: it has no signature for blocks, or reads a column that they do not have. Others of `MISFITS` are
            TensorFlow's.
    """
    model = load(path)
    if BLOCKS not in model.signatures:
        raise ValueError(f"it has no signature {BLOCKS}; a version of Sangam without it has exported it")
    if missing := columns_of(path) - set(examples.schema.names):
        raise ValueError(f"it reads column '{min(missing)}', which they do not have")
    return call(model, [plain(examples)])[0]


def in_short(error: Exception) -> str:
    """Returns the line with the cause, which TensorFlow puts between the graph's traceback and the nodes' names."""
    lines = [line.strip() for line in str(error).split("[[")[0].splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
