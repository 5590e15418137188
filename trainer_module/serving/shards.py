"""The files of a SavedModel's variables: each large one has its own, which a server can map into memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

_LEAST_BYTES = 2**24
"""Size of a variable that has its own file."""
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class OwnFiles(tf.train.experimental.ShardingCallback):
    """Divides variables among files: one for each large variable, whose bytes are the file, and one for all others.

    Attributes:
        files: file of each large variable by its key in the checkpoint, below the model's folder.
    """

    def __init__(self, variables: Mapping[str, tf.Variable]):
        """Takes the variables that may be large, by their path of attributes from the saved object."""
        super().__init__()
        large = [
            f"{path}{_VALUE}"
            for path, variable in variables.items()
            if int(tf.size(variable)) * variable.dtype.size >= _LEAST_BYTES
        ]
        width = 1 + len(large)
        self.files = {
            key: f"variables/variables.data-{number:05}-of-{width:05}" for number, key in enumerate(large, start=1)
        }

    @property
    def description(self) -> str:
        """The policy in words, for TensorFlow's statistics."""
        return "A file for each large variable."

    def __call__(self, shardable_tensors: Sequence[Any]) -> list[dict[str, dict[Any, Any]]]:
        """Returns the contents of each file: key to slice to tensor."""
        shards: list[dict[str, dict[Any, Any]]] = [{} for _ in range(1 + len(self.files))]
        of_key = {key: number for number, key in enumerate(self.files, start=1)}
        for each in shardable_tensors:
            shard = shards[of_key.get(each.checkpoint_key, 0)]
            shard.setdefault(each.checkpoint_key, {})[each.slice_spec] = each.tensor
        return shards
