"""Converts rows between Arrow and blocks, which schemas/contracts/example_files.py describes."""

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamples

from sangam.schemas.contracts.example_files import lengths_of, values_of
from sangam.schemas.parts.columns import ColumnType

_ZLIB_LEVEL = 1
"""Compression level; higher ones take three times as long for a tenth fewer bytes."""
_VALUES = values_of("")
_FEATURE_TYPES: dict[ColumnType, Any] = {
    "string": schema_pb2.BYTES,
    "int": schema_pb2.INT,
    "float": schema_pb2.FLOAT,
}
Types = tuple[tuple[str, ColumnType], ...]
"""Columns with their types."""


def encode(rows: pa.RecordBatch) -> bytes:
    """Returns rows as a block; see `plain`."""
    return zlib.compress(plain(rows), _ZLIB_LEVEL)


def plain(rows: pa.RecordBatch) -> bytes:
    """Returns rows as a block before its compression.

    Args:
        rows: a list column of int64, float32 or binary for each column of the logs; null and empty lists are the same.
    """
    features = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        features.append(_feature(values_of(name), column.flatten()))
        features.append(_feature(lengths_of(name), column.value_lengths().fill_null(0).cast(pa.int64())))
    # Concatenated Examples parse as one with all features. A single Example would have them in random order.
    return b"".join(features)


def decode(block: bytes) -> pa.RecordBatch:
    """Returns the rows of a block; see `rows_of`."""
    return rows_of([decompressed(block)])


def decompressed(block: bytes) -> bytes:
    """Returns what `plain` gave for a block."""
    return zlib.decompress(block)


def rows_of(plain_blocks: Sequence[bytes], only: Types | None = None) -> pa.RecordBatch:
    """Returns the rows of decompressed blocks, one block after another.

    The columns are those of `plain`, sorted by name; a row without values has a null. Binary values are of the type
    large_binary.

    Args:
        plain_blocks: blocks, which have the same columns.
        only: columns to read, of these types; one that the blocks lack is left out. By default all.
    """
    features = _decoder(only).DecodeBatch(list(plain_blocks))
    index = {name: number for number, name in enumerate(features.schema.names)}
    named = [name.removeprefix(_VALUES) for name in index if name.startswith(_VALUES)]
    names = sorted(name for name in named if not features.column(index[lengths_of(name)]).null_count)
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


@functools.lru_cache(maxsize=64)
def _decoder(only: Types | None) -> Any:
    if only is None:
        return ExamplesToRecordBatchDecoder()
    schema = schema_pb2.Schema()
    for name, kind in only:
        schema.feature.add(name=values_of(name), type=_FEATURE_TYPES[kind])
        schema.feature.add(name=lengths_of(name), type=schema_pb2.INT)
    return ExamplesToRecordBatchDecoder(schema.SerializeToString())
