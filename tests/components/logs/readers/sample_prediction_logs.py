"""Records of TensorFlow Serving's own log, as a collector of requests and answers writes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2, regression_pb2

from sangam.components.logs.readers import formats
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs, ServedLogs
from tests.components.logs.sample_logs import write_records

LOGS: DayLogs = ServedLogs(kind="served", format="prediction_log", log="{YYYY}-{MM}-{DD}/*", train_days=1).parts


def predicted(
    request: predict_pb2.PredictRequest,
    response: predict_pb2.PredictResponse | None = None,
    at_s: int = 0,
    more: Mapping[str, Any] | None = None,
) -> bytes:
    """Returns the record of a call of Predict, with inputs that a collector adds."""
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.CopyFrom(request)
    for name, values in (more or {}).items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    if response is not None:
        log.predict_log.response.CopyFrom(response)
        log.log_metadata.model_spec.CopyFrom(response.model_spec)
    log.log_metadata.timestamp_secs = at_s
    return bytes(log.SerializeToString())


def ranked(
    inputs: Mapping[str, Any], scores: Mapping[str, Any] | None = None, version: int = 7, at_s: int = 5
) -> bytes:
    """Returns the record of a request for `rank`."""
    request, response = predict_pb2.PredictRequest(), predict_pb2.PredictResponse()
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    for name, values in (scores or {}).items():
        response.outputs[name].CopyFrom(tf.make_tensor_proto(np.asarray(values, np.float32)))
    response.model_spec.version.value = version
    return predicted(request, response, at_s)


def example(**features: Any) -> tf.train.Example:
    """Returns a tf.Example: of texts, of floats where the first value is one, otherwise of integers."""
    made = tf.train.Example()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        match values[0]:
            case bytes():
                made.features.feature[name].bytes_list.value.extend(values)
            case float():
                made.features.feature[name].float_list.value.extend(values)
            case _:
                made.features.feature[name].int64_list.value.extend(values)
    return made


def of_examples(examples: Sequence[tf.train.Example], context: tf.train.Example | None = None) -> bytes:
    """Returns the record of a call of Regress, or of Classify where the examples have a context."""
    log = prediction_log_pb2.PredictionLog()
    if context is None:
        regression = regression_pb2.RegressionRequest()
        regression.input.example_list.examples.extend(examples)
        log.regress_log.request.CopyFrom(regression)
    else:
        classification = classification_pb2.ClassificationRequest()
        classification.input.example_list_with_context.examples.extend(examples)
        classification.input.example_list_with_context.context.CopyFrom(context)
        log.classify_log.request.CopyFrom(classification)
    return bytes(log.SerializeToString())


def rows_of(path: Path, columns: Sequence[Column]) -> tuple[list[dict[str, Any]], int]:
    """Returns the rows of a file as ingestion reads them, and the number of records that it leaves out."""
    with path.open("rb") as file:
        read = list(formats.read(LOGS, file, str(path), columns))
    rows = [row for part in read for row in pa.Table.from_batches([part.batch]).to_pylist()]
    return rows, sum(part.num_unreadable for part in read)


def write(path: Path, records: Sequence[bytes]) -> Path:
    """Writes records, under gzip if the name ends in .gz."""
    write_records(path, records)
    return path
