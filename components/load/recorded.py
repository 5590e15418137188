"""Requests from a file."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sangam.components.load.signature import Arrays, Input
from sangam.schemas.contracts.export import RANK
from sangam.schemas.errors import UserError

_OPTION = "--requests"
_MOST = 1_000
"""Requests that are read of a file; they are sent in turn."""


def read_requests(path: Path, inputs: Mapping[str, Input]) -> list[Arrays]:
    """Reads requests for `rank`: JSON Lines of bodies of REST, or the warm-up requests of a model.

    Raises:
        UserError: with the place in the file.
    """
    if not path.is_file():
        raise UserError(
            f'{_OPTION}: no such file (got {path}); give JSON Lines of {{"inputs": ...}}, or a version\'s warm-up '
            "requests"
        )
    found = list(_json_lines(path, inputs) if path.suffix in (".json", ".jsonl") else _warm_up(path, inputs))
    if not found:
        raise UserError(f"{_OPTION}: has no request for {RANK} (got {path}); give a file with one")
    return found


def _json_lines(path: Path, inputs: Mapping[str, Input]) -> Iterator[Arrays]:
    with path.open(encoding="utf-8") as file:
        for number, line in zip(range(1, _MOST + 1), file, strict=False):
            place = f"{path}:{number}"
            try:
                columns = json.loads(line)["inputs"]
                request = {name: _array(inputs[name], values) for name, values in columns.items() if name in inputs}
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise UserError(
                    f"{place}: is no request (got {type(error).__name__}: {error}); each line is an object with "
                    '"inputs", a list of values for each input'
                ) from None
            yield _checked(place, columns, request, inputs)


def _array(described: Input, values: Any) -> Any:
    array = np.array(values, described.dtype)
    if array.ndim != 1 + described.is_list:
        raise ValueError(f"shape {list(array.shape)}")
    return array


def _warm_up(path: Path, inputs: Mapping[str, Input]) -> Iterator[Arrays]:
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    try:
        records = list(tf.data.TFRecordDataset(str(path)).take(_MOST).as_numpy_iterator())
        requests = [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
    except Exception as error:
        raise UserError(
            f"{path}: is no file of warm-up requests (got {type(error).__name__}); JSON Lines end in .jsonl"
        ) from error
    for number, request in enumerate(requests, start=1):
        if request.model_spec.signature_name == RANK:
            arrays = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
            yield _checked(f"{path}: request {number}", arrays, arrays, inputs)


def _checked(place: str, given: Mapping[str, Any], request: Arrays, inputs: Mapping[str, Input]) -> Arrays:
    if wrong := sorted(given.keys() ^ inputs.keys()):
        raise UserError(
            f"{place}: inputs do not fit the served model (got {', '.join(wrong)} on one side alone); {RANK} takes "
            f"{', '.join(inputs)}"
        )
    lengths = {len(array) for array in request.values()} - {1}
    if len(lengths) > 1 or 0 in lengths:
        raise UserError(f"{place}: numbers of rows do not agree (got {sorted(lengths)}); each is 1 or the same")
    return request
