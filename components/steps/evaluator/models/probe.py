"""Scores a few examples with an exported model, before Beam scores all of them."""

import gc
import importlib
import os
from typing import Any

import tensorflow as tf
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from schemas.contracts.export import DESCRIPTION_FILE, SERVE, read_header
from schemas.errors import UserError

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
    (uri,) = artifact_utils.get_split_uris([examples], split)
    records: list[bytes] = []
    for file in sorted(fileio.glob(os.path.join(uri, "*"))):
        compression = "GZIP" if file.endswith(".gz") else ""
        dataset = tf.data.TFRecordDataset(file, compression).take(_PROBE_EXAMPLES - len(records))
        records.extend(dataset.as_numpy_iterator())
        if len(records) >= _PROBE_EXAMPLES:
            break
    return records


def score(path: str, records: list[bytes]) -> dict[str, tf.Tensor]:
    """Returns the outputs of a SavedModel for the records, by name."""
    load_custom_ops(path)
    try:
        return _score(path, records)
    finally:
        # A loaded model and its functions refer to each other: its rows would stay in memory while TFMA loads it again.
        gc.collect()


def _score(path: str, records: list[bytes]) -> dict[str, tf.Tensor]:
    loaded = tf.saved_model.load(path)
    signature = loaded.signatures[SERVE]
    (argument,) = signature.structured_input_signature[1]
    outputs: dict[str, tf.Tensor] = signature(**{argument: tf.constant(records, tf.string)})
    if hasattr(loaded, "release"):
        # Hash tables outlive the model that made them. Models without tables lack this function.
        loaded.release()
    return outputs


def load_custom_ops(path: str) -> None:
    """Imports the package of custom operations that a SavedModel needs, if any: TensorFlow cannot load it otherwise.

    Raises:
        ValueError: for a package that no export of Sangam needs.
    """
    description = os.path.join(path, DESCRIPTION_FILE)
    if not fileio.exists(description):
        return
    with fileio.open(description, "rb") as file:
        content = file.read()
    try:
        header = read_header(description, content)
    except UserError as error:
        raise ValueError(str(error)) from error
    if header.custom_ops:
        importlib.import_module(header.custom_ops)


def in_short(error: Exception) -> str:
    """Returns the line with the cause, which TensorFlow puts between the graph's traceback and the nodes' names."""
    lines = [line.strip() for line in str(error).split("[[")[0].splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
