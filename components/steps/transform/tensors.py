"""Converts batches of rows to tensors and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

# Shape suffixes: n values of a batch.


def tensors_of(rows: pa.RecordBatch, names: Sequence[str]) -> dict[str, tf.SparseTensor]:
    """Returns columns as SparseTensors [rows, values]."""
    return {name: _sparse(rows.column(rows.schema.get_field_index(name))) for name in names}


def _sparse(column: pa.Array) -> tf.SparseTensor:
    values = column.flatten()
    lengths = np.asarray(column.value_lengths().fill_null(0), np.int64)
    row_n = np.repeat(np.arange(len(lengths)), lengths)
    position_n = np.arange(len(row_n)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    most = int(lengths.max(initial=0))
    return tf.SparseTensor(
        np.stack([row_n, position_n], 1),
        tf.constant(values.to_numpy(zero_copy_only=False), _dtype(values.type)),
        [len(lengths), most],
    )


def rows_of(tensors: Mapping[str, Any]) -> pa.RecordBatch:
    """Returns tensors as columns of lists: dense ones of any rank, and SparseTensors [rows, values], sorted by name."""
    return pa.RecordBatch.from_arrays([_lists(tensors[name]) for name in sorted(tensors)], sorted(tensors))


def _lists(tensor: Any) -> pa.Array:
    if isinstance(tensor, tf.SparseTensor):
        num_rows = int(tensor.dense_shape[0])
        lengths = np.bincount(tensor.indices[:, 0].numpy(), minlength=num_rows)
        values = tensor.values
    else:
        num_rows = tensor.shape[0]
        lengths = np.full(num_rows, int(np.prod(tensor.shape[1:])))
        values = tf.reshape(tensor, [-1])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), _array(values))


def _array(values: tf.Tensor) -> pa.Array:
    return pa.array(values.numpy(), pa.large_binary() if values.dtype == tf.string else None)


def _dtype(of: pa.DataType) -> tf.DType:
    if pa.types.is_integer(of):
        return tf.int64
    return tf.float32 if pa.types.is_floating(of) else tf.string
