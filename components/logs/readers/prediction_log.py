"""TensorFlow Serving's own log, TFRecord of PredictionLog, as rows: those of a request, as in Sangam's own log.

Inputs are named tensors, those of `rank`, or tf.Examples; of a record, `LogMetadata` has the time and the version.
https://github.com/tensorflow/serving/blob/2.16.1/tensorflow_serving/apis/prediction_log.proto
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from sangam.components.logs.readers.batches import BATCH_ROWS, Inspection, Rows
from sangam.components.logs.readers.tfrecord import column_of, records_of
from sangam.schemas.contracts.request_log import AT, NUM_CANDIDATES, SCORE, VERSION
from sangam.schemas.derived.rank_inputs import LENGTH, input_name
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec.forms import Form

_PREDICT = "predict_log"
_OF_EXAMPLES = ("classify_log", "regress_log", "multi_inference_log")
_MOST_VALUES = 2**25
"""Values of a tensor: a message can express one value, a billion times, in a few bytes."""
_STRING = 7
_TYPES: dict[int, tuple[str, Any, pa.DataType]] = {
    1: ("float_val", np.float32, pa.float32()),
    2: ("double_val", np.float64, pa.float32()),
    3: ("int_val", np.int32, pa.int64()),
    _STRING: ("string_val", object, pa.binary()),
    9: ("int64_val", np.int64, pa.int64()),
    10: ("bool_val", np.bool_, pa.int64()),
}
"""By the number of a DataType: the field with its values, their type, and their type in a tf.Example."""

# Shape suffixes: R rows of a tensor: 1, or one for each of the request; W width.


@dataclass(frozen=True)
class _Request:
    """The rows of a record: lists, as a tf.Example has them; no array: no row has the column."""

    num_rows: int
    columns: dict[str, pa.Array]
    unread: frozenset[str] = frozenset()


def inspect(file: BinaryIO, path: str, columns: Sequence[Column]) -> Inspection:
    """Checks the first record; the columns are known only after reading all of them."""
    del columns
    try:
        first = next(records_of(file, path), None)
    except UserError as error:
        return Inspection(problems=(str(error),))
    log = None if first is None else _parsed(first)
    if first is not None and (log is None or log.WhichOneof("log_type") is None):
        what = f"{path}: record 1 is no PredictionLog (got {first[:20]!r}); choose the format of its records under data"
        return Inspection(problems=(what,))
    return Inspection(is_empty=first is None)


def read(file: BinaryIO, path: str, columns: Sequence[Column], forms: Mapping[str, Form]) -> Iterator[Rows]:
    """Yields the columns of the inputs; records without inputs by name or tf.Examples are counted and left out.

    Raises:
        UserError: for a wrong type or number of values, and a corrupt or truncated file.
    """
    requests: list[_Request] = []
    num_rows = num_unreadable = 0
    for number, record in enumerate(records_of(file, path), 1):
        request = _request(record, columns, f"{path}: record {number}")
        if request is None:
            num_unreadable += 1
            continue
        requests.append(request)
        num_rows += request.num_rows
        if num_rows >= BATCH_ROWS:
            yield _rows(requests, num_unreadable, path, columns, forms)
            requests, num_rows, num_unreadable = [], 0, 0
    if requests or num_unreadable:
        yield _rows(requests, num_unreadable, path, columns, forms)


def _rows(
    requests: Sequence[_Request], num_unreadable: int, path: str, columns: Sequence[Column], forms: Mapping[str, Form]
) -> Rows:
    arrays = {column.name: _together(requests, column.name, path) for column in columns}
    absent = frozenset(name for name, array in arrays.items() if pa.types.is_null(array.type))
    found = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
    selected = [
        arrays[column.name] if column.name in absent else column_of(found, column, path, forms) for column in columns
    ]
    unread = frozenset[str]().union(*(request.unread for request in requests)) - set(arrays)
    return Rows(pa.RecordBatch.from_arrays(selected, list(arrays)), absent, num_unreadable, unread)


def _together(requests: Sequence[_Request], name: str, path: str) -> pa.Array:
    """Returns a column of some requests; of type null if none has it."""
    kinds = list(dict.fromkeys(each.columns[name].type for each in requests if name in each.columns))
    if len(kinds) > 1:
        first, second = (kind.value_type for kind in kinds[:2])
        what = f"has two types (got {first} in some records, {second} in others); log it as one"
        raise UserError(f"{path}: column '{name}': {what}")
    kind = kinds[0] if kinds else pa.null()
    parts = [each.columns[name] if name in each.columns else pa.nulls(each.num_rows, kind) for each in requests]
    return pa.concat_arrays(parts) if parts else pa.nulls(0)


def _request(record: bytes, columns: Sequence[Column], place: str) -> _Request | None:
    """Returns the rows of a record; None if it is no request with inputs by name or tf.Examples."""
    log = _parsed(record)
    variant = log and log.WhichOneof("log_type")
    if log is None or variant not in (_PREDICT, *_OF_EXAMPLES):
        return None
    logged = getattr(log, variant)
    if variant == _PREDICT:
        inputs = logged.request.inputs
        examples = _examples_of(inputs, columns, place)
        request = _of_tensors(inputs, columns, place) if examples is None else _of_examples(examples, None)
    else:
        kind = logged.request.input.WhichOneof("kind")
        if kind is None:
            return None
        given = getattr(logged.request.input, kind)
        context = given.context.SerializeToString() if kind == "example_list_with_context" else None
        request = _of_examples([each.SerializeToString() for each in given.examples], context)
    if request is None:
        return None
    own = _own(log, logged, request.num_rows, columns, place)
    return _Request(request.num_rows, {**request.columns, **own}, request.unread)


def _parsed(record: bytes) -> Any | None:
    # Imported here: it imports TensorFlow, which readers of other formats need not.
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    try:
        return PredictionLog.FromString(record)
    except DecodeError:
        return None


def _own(log: Any, logged: Any, num_rows: int, columns: Sequence[Column], place: str) -> dict[str, pa.Array]:
    """Returns what the log itself tells: time, version, number of candidates, and the outputs of `Predict`."""
    spec = log.log_metadata.model_spec
    if not spec.HasField("version"):
        spec = getattr(logged.response, "model_spec", spec)
    version = spec.version.value if spec.HasField("version") else None
    told = {AT: log.log_metadata.timestamp_secs or None, VERSION: version, NUM_CANDIDATES: num_rows}
    found = {
        name: _repeated(pa.array([[value]], pa.list_(pa.int64())), num_rows)
        for name, value in told.items()
        if value is not None
    }
    outputs = getattr(logged.response, "outputs", {})
    for column in columns:
        task = column.name.removeprefix(SCORE)
        if column.name.startswith(SCORE) and task in outputs:
            found[column.name] = _lists(outputs[task], None, num_rows, f"{place}: output '{task}'")
    return found


def _examples_of(inputs: Any, columns: Sequence[Column], place: str) -> list[bytes] | None:
    """Returns the tf.Examples of a request: its only input, of texts, and no column; None: the inputs are columns."""
    if len(inputs) != 1:
        return None
    [(name, tensor)] = inputs.items()
    if tensor.dtype != _STRING or name in {input_name(column.name) for column in columns}:
        return None
    return [bytes(each) for each in _array(tensor, f"{place}: input '{name}'").ravel()]


def _of_examples(examples: Sequence[bytes], context: bytes | None) -> _Request | None:
    decoder = ExamplesToRecordBatchDecoder()
    try:
        of_rows = decoder.DecodeBatch(list(examples)) if examples else pa.RecordBatch.from_arrays([], [])
        of_all = pa.RecordBatch.from_arrays([], []) if context is None else decoder.DecodeBatch([context])
    except RuntimeError:
        return None
    found = {name: _repeated(array, len(examples)) for name, array in _arrays(of_all).items()}
    return _Request(len(examples), {**found, **_arrays(of_rows)}, frozenset(of_rows.schema.names))


def _arrays(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Returns the features that have values, of the types that tensors get."""
    found = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if not pa.types.is_null(array.type):
            kind = array.type.value_type
            found[name] = array.cast(pa.list_(pa.binary() if pa.types.is_large_binary(kind) else kind))
    return found


def _of_tensors(inputs: Any, columns: Sequence[Column], place: str) -> _Request:
    num_rows = max((_shape(tensor, place)[0] for tensor in inputs.values()), default=0)
    found = {}
    for column in columns:
        if (name := input_name(column.name)) in inputs:
            lengths = inputs.get(name + LENGTH) if column.is_list else None
            found[column.name] = _lists(inputs[name], lengths, num_rows, f"{place}: input '{name}'")
    return _Request(num_rows, found, frozenset(inputs))


def _lists(tensor: Any, lengths: Any | None, num_rows: int, place: str) -> pa.Array:
    """Returns a tensor as a list for each row; `lengths` has their lengths where it is padded."""
    shape = _shape(tensor, place)
    if shape[0] not in (1, num_rows):
        raise UserError(f"{place}: has neither one row nor one for each of {num_rows} (got shape {shape})")
    values_RW = _array(tensor, place).reshape(shape[0], -1 if shape[0] else 1)
    lengths_R = np.full(len(values_RW), values_RW.shape[1])
    if lengths is not None:
        lengths_R = _array(lengths, place).ravel()
        if len(lengths_R) != len(values_RW):
            raise UserError(f"{place}: has not one length for each row (got {len(lengths_R)} for {len(values_RW)})")
        lengths_R = np.clip(lengths_R.astype(np.int64), 0, values_RW.shape[1])
    values = values_RW[np.arange(values_RW.shape[1]) < lengths_R[:, None]]
    kind = _TYPES[tensor.dtype][2]
    array = pa.array(values.tolist() if values.dtype == object else values).cast(kind, safe=False)
    offsets = np.concatenate([[0], np.cumsum(lengths_R)])
    return _repeated(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array), num_rows)


def _repeated(array: pa.Array, num_rows: int) -> pa.Array:
    return array if len(array) == num_rows else array.take(pa.array(np.zeros(num_rows, np.int64)))


def _shape(tensor: Any, place: str) -> list[int]:
    """Returns the lengths of a tensor's dimensions, at least one."""
    shape = [dim.size for dim in tensor.tensor_shape.dim] or [1]
    if tensor.tensor_shape.unknown_rank or min(shape) < 0 or math.prod(shape) > _MOST_VALUES:
        raise UserError(f"{place}: is no tensor of a request (got shape {shape}); {_MOST_VALUES} values are allowed")
    return shape


def _array(tensor: Any, place: str) -> NDArray[Any]:
    """Returns the values of a tensor, of its shape; a message may leave out repetitions of the last one."""
    if tensor.dtype not in _TYPES:
        known = listed(sorted(name.removesuffix("_val") for name, _, _ in _TYPES.values()))
        raise UserError(f"{place}: has a type that no column has (got DataType {tensor.dtype}); {known} are read")
    field, dtype, _ = _TYPES[tensor.dtype]
    shape = _shape(tensor, place)
    size = math.prod(shape)
    if tensor.tensor_content and tensor.dtype != _STRING:
        if len(tensor.tensor_content) != size * np.dtype(dtype).itemsize:
            got = len(tensor.tensor_content)
            raise UserError(f"{place}: its bytes do not fit its shape (got {got} bytes for {shape}); write it again")
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
    values = list(getattr(tensor, field))
    if len(values) > size or (size and not values):
        raise UserError(f"{place}: its values do not fit its shape (got {len(values)} for {shape}); write it again")
    found = np.empty(size, dtype)
    found[: len(values)] = values
    found[len(values) :] = values[-1] if values else 0
    return found.reshape(shape)
