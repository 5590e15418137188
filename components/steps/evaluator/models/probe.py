"""Asks an exported model for the scores of a few examples, before Beam asks it for all of them."""

import gc
import importlib
import json
import os
from typing import Any

import tensorflow as tf
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from components.steps.evaluator.eval_config import SIGNATURE

MISFITS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    FileNotFoundError,
    KeyError,
    ValueError,
)
"""What a model that does not fit the examples raises. Anything else, such as a store out of reach or too little memory,
may pass and must not let a worse model through: it ends the run."""
_PROBE_EXAMPLES = 64
_DESCRIPTION = os.path.join("assets.extra", "ranker.json")
_CUSTOM_OPS = ("tensorflow_recommenders_addons",)
"""Packages that a model may ask for: no other name in a file makes us import something."""


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
        # A loaded model and its functions refer to each other: left to itself, its rows would stay while TFMA loads
        # them again.
        gc.collect()


def _score(path: str, records: list[bytes]) -> dict[str, tf.Tensor]:
    loaded = tf.saved_model.load(path)
    signature = loaded.signatures[SIGNATURE]
    (argument,) = signature.structured_input_signature[1]
    outputs: dict[str, tf.Tensor] = signature(**{argument: tf.constant(records, tf.string)})
    if hasattr(loaded, "release"):
        # Hash tables outlive the model that made them; other stock models have none, and no such function.
        loaded.release()
    return outputs


def load_custom_ops(path: str) -> None:
    """Imports the package of operations that a SavedModel says it needs, if any; TensorFlow must know them to load it.

    Raises:
        ValueError: for a package that no export of ours asks for.
    """
    description = os.path.join(path, _DESCRIPTION)
    if not fileio.exists(description):
        return
    with fileio.open(description, "rb") as file:
        package = json.loads(file.read()).get("custom_ops")
    if not package:
        return
    if package not in _CUSTOM_OPS:
        raise ValueError(f"{description}: unknown package of operations (got {package!r}); one of: {_CUSTOM_OPS}")
    importlib.import_module(package)


def in_short(error: Exception) -> str:
    """Returns one line: TensorFlow puts what matters after the graph's traceback and before the nodes' names."""
    lines = [line.strip() for line in str(error).split("[[")[0].splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
