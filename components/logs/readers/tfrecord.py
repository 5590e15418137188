"""TFRecord of tf.Example, plain, gzip or zlib.

The framing is parsed here, as TensorFlow does not distinguish a truncated file from a complete one.
Reference: tensorflow/core/lib/io/record_writer.h: uint64 length, masked crc32c of it, data, masked crc32c of it.
"""

import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO, cast

import google_crc32c
import numpy as np
import pyarrow as pa
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from sangam.components.logs.readers.batches import Inspection, Rows
from sangam.components.logs.readers.column_types import is_list, type_problem
from sangam.components.logs.readers.damage import plain, unread
from sangam.components.logs.readers.forms import form_problem
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.forms import Form

# All features of a record are decoded, so batches are smaller than those of columnar files.
_BATCH_RECORDS = 1024
_WRONG_TYPE = re.compile(r'expected (\w+)_list, found (\w+)_list for feature "(.*)"')
_CRC_MASK_DELTA = 0xA282EAD8
_ZLIB = 0x78
_FIELDS_OF_LENGTH = (0x0A, 0x12)
"""Tags of the first and the second field of a message: `features` of a tf.Example, `feature_lists`."""


def inspect(file: BinaryIO, path: str, columns: Sequence[Column]) -> Inspection:
    """Checks that there is a record; the columns are known only after reading all records."""
    del columns
    try:
        first = next(records_of(file, path), None)
    except UserError as error:
        return Inspection(problems=(str(error),))
    return Inspection(is_empty=first is None)


def read(file: BinaryIO, path: str, columns: Sequence[Column], forms: Mapping[str, Form]) -> Iterator[Rows]:
    """Yields the columns of the inputs; records that are not tf.Examples are counted and left out.

    Raises:
        UserError: for a wrong type, several values in a scalar column, and a corrupt or truncated file.
    """
    # Without a schema: the types come from the file, and an absent column differs from an empty one.
    decoder = ExamplesToRecordBatchDecoder()
    records, num_records = records_of(file, path), 0
    while chunk := list(islice(records, _BATCH_RECORDS)):
        readable = chunk
        if any(map(_has_lists_of_features, chunk)):
            raise UserError(
                f"{path}: has tf.SequenceExamples with feature_lists (got one in records {num_records + 1} to "
                f"{num_records + len(chunk)}); write tf.Examples: a list is a feature of many values"
            )
        num_records += len(chunk)
        try:
            batch = decoder.DecodeBatch(chunk)
        except RuntimeError as error:
            readable = [record for record in chunk if _is_example(decoder, record)]
            if len(readable) == len(chunk):
                raise UserError(_mixed_types(str(error), path)) from error
            batch = _decoded(decoder, readable, path)
        wanted, found = frozenset(column.name for column in columns), frozenset(batch.schema.names)
        absent = wanted - found
        arrays = [
            pa.nulls(len(readable)) if column.name in absent else column_of(batch, column, path, forms)
            for column in columns
        ]
        selected = pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])
        yield Rows(selected, absent=absent, num_unreadable=len(chunk) - len(readable), unread=found - wanted)


def records_of(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Yields the serialized records.

    Raises:
        UserError: the file is not a TFRecord file, or is corrupt or truncated.
    """
    content, num_records = _content(file), 0
    try:
        while head := content.read(12):
            if len(head) < 12:
                raise _truncated(path, num_records)
            length, length_crc = struct.unpack("<QI", head)
            if _masked_crc(head[:8]) != length_crc:
                raise _no_head(head, path, num_records)
            body = content.read(length + 4)
            if len(body) < length + 4:
                raise _truncated(path, num_records)
            record = body[:length]
            if _masked_crc(record) != struct.unpack("<I", body[length:])[0]:
                raise UserError(f"{path}: record {num_records + 1} is damaged (its checksum is wrong); write it again")
            num_records += 1
            yield record
    except EOFError:
        raise _truncated(path, num_records) from None
    except (OSError, zlib.error) as error:
        raise UserError(unread(path, error)) from error


def _content(file: BinaryIO) -> BinaryIO:
    """Returns a file's content without gzip's or zlib's compression, whatever its name says."""
    head = file.read(12)
    file.seek(0)
    is_zlib = len(head) == 12 and head[0] == _ZLIB and int.from_bytes(head[:2], "big") % 31 == 0
    if is_zlib and _masked_crc(head[:8]) != struct.unpack("<I", head[8:])[0]:
        # Arrow's gzip detects zlib.
        return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "gzip"))
    return plain(file)


def _no_head(head: bytes, path: str, num_records: int) -> UserError:
    if num_records:
        return UserError(f"{path}: is damaged after {num_records} records; write it again")
    return UserError(
        f"{path}: is not a TFRecord file (got {head!r} at its start); choose its format under data, or remove it"
    )


def _has_lists_of_features(record: bytes) -> bool:
    """Returns whether a record is a SequenceExample with lists: its second field, which a tf.Example does not have."""
    place, has_lists = 0, False
    while place < len(record) and record[place] in _FIELDS_OF_LENGTH:
        has_lists |= record[place] == _FIELDS_OF_LENGTH[1]
        length, shift, place = 0, 0, place + 1
        while place < len(record):
            byte = record[place]
            length, shift, place = length | (byte & 0x7F) << shift, shift + 7, place + 1
            if byte < 0x80:
                break
        place += length
    return has_lists and place == len(record)


def _truncated(path: str, num_records: int) -> UserError:
    return UserError(f"{path}: is truncated after {num_records} records; write it again")


def _masked_crc(data: bytes) -> int:
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _CRC_MASK_DELTA) & 0xFFFFFFFF


def _is_example(decoder: ExamplesToRecordBatchDecoder, record: bytes) -> bool:
    try:
        decoder.DecodeBatch([record])
    except RuntimeError:
        return False
    return True


def _decoded(decoder: ExamplesToRecordBatchDecoder, records: list[bytes], path: str) -> pa.RecordBatch:
    if not records:
        return pa.RecordBatch.from_arrays([], [])
    try:
        return decoder.DecodeBatch(records)
    except RuntimeError as error:
        raise UserError(_mixed_types(str(error), path)) from error


def _mixed_types(error: str, path: str) -> str:
    match = _WRONG_TYPE.search(error)
    if match is None:
        return f"{path}: cannot be decoded (got: {error}); write tf.Examples"
    first, second, name = match.groups()
    return f"{path}: column '{name}': has two types (got {first} in some records, {second} in others); log it as one"


def column_of(batch: pa.RecordBatch, column: Column, path: str, forms: Mapping[str, Form]) -> pa.Array:
    """Returns a column, as scalars if it is not a list column."""
    array = batch.column(batch.schema.get_field_index(column.name))
    return array if column.is_list or not is_list(array.type) else _scalar(array, column, path, forms)


def _scalar(array: pa.Array, column: Column, path: str, forms: Mapping[str, Form]) -> pa.Array:
    form = forms.get(column.name)
    kind = array.type.value_type
    problem = form_problem(form, kind) if form else type_problem(column, kind)
    if problem:
        raise UserError(f"{path}: column '{column.name}': {problem}")
    lengths = np.asarray(array.value_lengths().fill_null(0))
    longest = int(lengths.max(initial=0))
    if longest > 1:
        raise UserError(
            f"{path}: column '{column.name}': several values in a record (got {longest}); "
            "a column that is not a list has at most one"
        )
    indices = np.cumsum(lengths) - 1
    return array.flatten().take(pa.array(indices, pa.int64(), mask=lengths == 0))
