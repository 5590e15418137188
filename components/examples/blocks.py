"""Converts rows between Arrow and blocks, which schemas/contracts/example_files.py describes."""

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamples

from sangam.schemas.contracts.example_files import lengths_of, values_of

_ZLIB_LEVEL = 1
"""Compression level; higher ones take three times as long for a tenth fewer bytes."""
_VALUES = values_of("")


def encode(rows: pa.RecordBatch) -> bytes:
    """Returns rows as a block.

    Args:
        rows: a list column of int64, float32 or binary for each column of the logs; null and empty lists are the same.
    """
    features = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        features.append(_feature(values_of(name), column.flatten()))
        features.append(_feature(lengths_of(name), column.value_lengths().fill_null(0).cast(pa.int64())))
    # Concatenated Examples parse as one with all features. A single Example would have them in random order.
    return zlib.compress(b"".join(features), _ZLIB_LEVEL)


def decode(block: bytes) -> pa.RecordBatch:
    """Returns the rows of a block: the columns of `encode`, sorted by name; a row without values has a null.

    Binary values are of the type large_binary.
    """
    return rows_of([zlib.decompress(block)])


def rows_of(examples: Sequence[bytes]) -> pa.RecordBatch:
    """Returns the rows of decompressed blocks of the same columns; its cost by column is that of one block."""
    features = _decoder().DecodeBatch(examples)
    index = {name: number for number, name in enumerate(features.schema.names)}
    names = sorted(name.removeprefix(_VALUES) for name in index if name.startswith(_VALUES))
    columns = [
        _column(features.column(index[values_of(name)]), features.column(index[lengths_of(name)])) for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, names)


def _feature(name: str, values: pa.Array) -> bytes:
    """Returns a tf.Example of one feature."""
    one_row = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    [serialized] = RecordBatchToExamples(pa.RecordBatch.from_arrays([one_row], [name]))
    return bytes(serialized)


def _column(values: pa.Array, lengths: pa.Array) -> pa.Array:
    lengths_N = np.asarray(lengths.flatten())
    offsets = np.concatenate([[0], np.cumsum(lengths_N)])
    is_missing = np.append(lengths_N == 0, False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32(), mask=is_missing), values.flatten())


@functools.cache
def _decoder() -> Any:
    return ExamplesToRecordBatchDecoder()
