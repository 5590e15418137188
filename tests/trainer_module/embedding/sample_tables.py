"""One group of tables, alone in this process, stepped by hand."""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.schemas.spec.optimizers import Adagrad
from sangam.schemas.spec.tables import Table
from sangam.trainer_module.embedding.bookkeeping import Observed
from sangam.trainer_module.embedding.row_optimizers import StepContext
from sangam.trainer_module.embedding.row_store import RowStore
from sangam.trainer_module.transforms.keys import ID_BITS

DEFAULT_OPTIMIZER = Adagrad(kind="adagrad", learning_rate=0.1, initial_accumulator=0.5)


def group(**tables: Table) -> Group:
    """Returns a group of tables whose tags are their places, from 1."""
    optimizers = {name: table.optimizer or DEFAULT_OPTIMIZER for name, table in tables.items()}
    first = next(iter(tables.values()))
    return Group(
        name=f"test_{first.dim}",
        dim=first.dim,
        tags={name: tag for tag, name in enumerate(tables, start=1)},
        tables=tables,
        optimizers=optimizers,
        num_slot_floats=next(iter(optimizers.values())).slot_floats(first.dim),
    )


def table(**declared: Any) -> Table:
    """Returns a table of dimension 4, with more declared as in YAML."""
    return Table.model_validate_json(Table.model_construct(dim=4, **declared).model_dump_json(warnings=False))


def keys(*ids: int, tag: int = 1) -> NDArray[Any]:
    """Returns the keys of small numbers as ids of a table."""
    return np.array(ids, np.int64) | (tag << ID_BITS)


class Steps:
    """Steps of one rank on a store, as the trainer makes them: find or make, read, apply."""

    def __init__(self, store: RowStore):
        self.store = store
        self.step = 0
        self.factor = tf.Variable(1.0)
        self._compiled = tf.function(
            self._one,
            input_signature=[
                tf.TensorSpec([None], tf.int64),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, store.group.dim], tf.float32),
                tf.TensorSpec([], tf.int64),
            ],
            autograph=False,
        )

    def _one(
        self, keys: tf.Tensor, occurrences: tf.Tensor, newest: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor
    ) -> tf.Tensor:
        observed = Observed(occurrences, newest)
        numbers = self.store.find_or_make(keys, observed, step)
        rows = self.store.read(numbers)
        self.store.apply(keys, numbers, rows, gradients, 1.0, observed, StepContext(step, self.factor))
        return self.store.embeddings(keys, numbers, rows)

    def __call__(
        self,
        keys: NDArray[Any],
        *,
        minute: int | NDArray[Any] = 0,
        occurrences: int | NDArray[Any] = 1,
        gradients: NDArray[Any] | float = 1.0,
    ) -> NDArray[Any]:
        """Makes a step with unique keys; returns the embeddings that it read."""
        self.step += 1
        filled = [np.broadcast_to(np.int32(value), keys.shape) for value in (occurrences, minute)]
        gradient = np.broadcast_to(np.float32(gradients), (len(keys), self.store.group.dim))
        result: NDArray[Any] = self._compiled(
            tf.constant(keys), *map(tf.constant, filled), tf.constant(gradient), tf.constant(self.step, tf.int64)
        ).numpy()
        return result


def ids_of(store: RowStore) -> set[int]:
    """Returns the ids that have a row."""
    return {int(key) & ((1 << ID_BITS) - 1) for key in store.contents()[0]}
