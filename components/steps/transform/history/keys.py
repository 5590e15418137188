"""Keys of the ids of rows."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from sangam.components.steps.transform.tensors import tensors_of
from sangam.schemas.derived.history import By

KeysFn = Callable[[dict[str, Any], Mapping[str, str]], tf.Tensor]
"""`sangam.trainer_module.transforms.preprocessing.history_keys_fn`, imported by its dotted path."""


def keys_of(keys_fn: KeysFn, all_by: Sequence[By], rows: pa.RecordBatch) -> list[NDArray[np.int64]]:
    """Returns a key for each row, for each of several columns or pairs of columns of ids."""
    columns = tensors_of(rows, sorted({column for by in all_by for column, _ in by}))
    kinds = tuple((name, tensor.dtype) for name, tensor in columns.items())
    return [keys_R.numpy() for keys_R in _traced(keys_fn, tuple(all_by), kinds)(columns)]


@functools.lru_cache(maxsize=8)
def _traced(keys_fn: KeysFn, all_by: tuple[By, ...], kinds: tuple[tuple[str, tf.DType], ...]) -> Any:
    """Returns the function of all keys as one graph: step by step it takes 4 ms for each, however few the rows."""
    specs = {name: tf.SparseTensorSpec([None, None], kind) for name, kind in kinds}

    def keys(columns: dict[str, tf.SparseTensor]) -> list[tf.Tensor]:
        return [keys_fn(columns, dict(by)) for by in all_by]

    return tf.function(keys, input_signature=[specs], autograph=False).get_concrete_function()
