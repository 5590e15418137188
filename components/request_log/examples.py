"""Serialized tf.Examples of a request as the inputs that `rank` would have had."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING


def inputs_of_examples(columns: Mapping[str, ServedColumn], examples: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Parses examples that the model has answered; a list is padded, and has its lengths beside it."""
    import tensorflow as tf  # The server has imported it; other users of this package need not.

    types = {"int": tf.int64, "float": tf.float32, "string": tf.string}
    features = {name: tf.io.RaggedFeature(types[column.type]) for name, column in columns.items()}
    parsed = tf.io.parse_example(examples.tolist(), features)
    inputs: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        missing = MISSING[column.type]
        if column.is_list:
            inputs[column.input] = parsed[name].to_tensor().numpy()
            inputs[column.input + LENGTH] = parsed[name].row_lengths().numpy()
        else:
            inputs[column.input] = np.asarray(parsed[name].to_tensor(missing, shape=[None, 1]).numpy())[:, 0]
    return inputs
