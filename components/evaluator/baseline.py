"""Finds out what a blessed model of the past can still be asked about today's examples."""

import logging
import os
from collections.abc import Collection
from typing import Any

import tensorflow as tf
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components.evaluator.eval_config import SIGNATURE
from components.evaluator.verdict import Baseline

_LOG = logging.getLogger(__name__)
_PROBE_EXAMPLES = 64
_MISFITS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    FileNotFoundError,
    KeyError,
    ValueError,
)
"""What an old model that no longer fits raises. Anything else, such as a store out of reach or too little memory, may
pass and must not let a worse model through: it ends the run."""

NO_BASELINE = Baseline(uri=None, tasks=frozenset(), problem="no blessed model yet")


def usable_baseline(uri: str | None, *, wanted: Collection[str], examples: Any, split: str) -> Baseline:
    """Returns for which of the `wanted` tasks the model at `uri` scores the examples.

    A few examples are scored first: features may have been renamed since, and a failure in the midst of Beam would
    stop the judging of every later model.
    """
    if not uri or not wanted:
        return NO_BASELINE
    path = path_utils.serving_model_path(uri)
    if not fileio.exists(os.path.join(path, "saved_model.pb")):
        return Baseline(uri=None, tasks=frozenset(), problem=f"the blessed model {uri} is gone")
    try:
        outputs = _score(path, _first_examples(examples, split))
    except _MISFITS as error:
        _LOG.warning("baseline=%s unusable=%r", uri, error)
        problem = f"the blessed model {uri} cannot score today's examples ({_in_short(error)})"
        return Baseline(uri=None, tasks=frozenset(), problem=problem)
    tasks = frozenset(wanted) & outputs
    if not tasks:
        return Baseline(uri=None, tasks=tasks, problem=f"the blessed model {uri} has none of the tasks")
    return Baseline(uri=uri, tasks=tasks, problem="")


def _in_short(error: Exception) -> str:
    """Returns one line: TensorFlow puts what matters after the graph's traceback and before the nodes' names."""
    lines = [line.strip() for line in str(error).split("[[")[0].splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


def _first_examples(examples: Any, split: str) -> list[bytes]:
    (uri,) = artifact_utils.get_split_uris([examples], split)
    records: list[bytes] = []
    for file in sorted(fileio.glob(os.path.join(uri, "*"))):
        compression = "GZIP" if file.endswith(".gz") else ""
        dataset = tf.data.TFRecordDataset(file, compression).take(_PROBE_EXAMPLES - len(records))
        records.extend(dataset.as_numpy_iterator())
        if len(records) >= _PROBE_EXAMPLES:
            break
    return records


def _score(path: str, records: list[bytes]) -> frozenset[str]:
    """Returns the names of the model's outputs, after it has scored the records."""
    signature = tf.saved_model.load(path).signatures[SIGNATURE]
    (argument,) = signature.structured_input_signature[1]
    return frozenset(signature(**{argument: tf.constant(records, tf.string)}))
