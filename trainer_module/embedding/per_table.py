"""Numbers that differ between the tables of one group."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from sangam.trainer_module.transforms.keys import tags_of


class PerTable:
    """One float for every table of a group: a constant where all agree, else looked up by the key's tag."""

    def __init__(self, tags: Mapping[str, int], value_of: Callable[[str], float]):
        """Takes the tables' tags by name, and a function from table to number."""
        values = np.zeros(max(tags.values()) + 1, np.float32)
        for table, tag in tags.items():
            values[tag] = value_of(table)
        self._values = values
        own = {float(values[tag]) for tag in tags.values()}
        self.same = own.pop() if len(own) == 1 else None

    def __call__(self, keys: tf.Tensor) -> tf.Tensor | float:
        """Returns a number for all keys, or one for each, 0 for `NO_ID`: [n] int64 to [n, 1] float32."""
        if self.same is not None:
            return self.same
        return tf.gather(tf.constant(self._values), tags_of(keys))[:, None]
