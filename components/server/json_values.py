"""Converts between the JSON of TensorFlow Serving's REST interface and arrays."""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.server.request_error import invalid
from sangam.components.server.session import Arrays
from sangam.components.server.signature import Signature

_B64 = "b64"
_BYTES_SUFFIX = "_bytes"
"""Outputs with this suffix are returned as {"b64": ...}, as by TensorFlow Serving."""
_KINDS = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}
"""Kind of a NumPy type to the kinds of values that can be converted to it."""


def read_request(signature: Signature, body: dict[str, Any]) -> Arrays:
    """Returns the arrays of a request, in row ("instances") or columnar ("inputs") form.

    Raises:
        RequestError: naming the input.
    """
    columns = (
        _columns_of_rows(signature, body["instances"]) if "instances" in body else _columns(signature, body["inputs"])
    )
    signature.check_names(columns)
    return {name: _input(signature, name, values) for name, values in columns.items()}


def rows(outputs: dict[str, NDArray[Any]]) -> list[Any]:
    """Returns outputs as predictions, one for each row.

    Raises:
        RequestError: if an output has no rows, or a different number of them.
    """
    lengths = {name: len(array) if array.ndim else None for name, array in outputs.items()}
    if len(set(lengths.values())) != 1 or None in lengths.values():
        raise invalid(f"instances: the outputs do not have one value for each row (got {lengths}); use inputs")
    values = {name: value_of(name, array) for name, array in outputs.items()}
    if len(values) == 1:
        return list(next(iter(values.values())))
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def value_of(name: str, array: NDArray[Any]) -> Any:
    """Returns an output as JSON values; strings that are not UTF-8, and outputs *_bytes, as {"b64": ...}."""
    values = array.tolist()
    return _text(values, name.endswith(_BYTES_SUFFIX)) if array.dtype.kind == "O" else values


def _columns_of_rows(signature: Signature, instances: Any) -> dict[str, Any]:
    if not isinstance(instances, list):
        raise invalid(f"instances: is not a list (got {type(instances).__name__}); give one item for each row")
    if not instances:
        return {name: [] for name in signature.inputs}
    if not _is_object(instances[0]):
        return {_only_input(signature, "instances"): instances}
    names = instances[0].keys()
    for index, instance in enumerate(instances):
        if not _is_object(instance) or instance.keys() != names:
            got = sorted(instance) if _is_object(instance) else type(instance).__name__
            raise invalid(f"instances.{index}: other inputs than in instances.0 (got {got}); give {sorted(names)}")
    return {name: [instance[name] for instance in instances] for name in names}


def _columns(signature: Signature, inputs: Any) -> dict[str, Any]:
    return dict(inputs) if _is_object(inputs) else {_only_input(signature, "inputs"): inputs}


def _is_object(value: Any) -> bool:
    """Returns whether a value is an object of named inputs, and not a string in Base64."""
    return isinstance(value, dict) and value.keys() != {_B64}


def _only_input(signature: Signature, key: str) -> str:
    if len(signature.inputs) != 1:
        raise invalid(
            f"{key}: no names (got bare values); signature {signature.name} has the inputs {sorted(signature.inputs)}"
        )
    return next(iter(signature.inputs))


def _input(signature: Signature, name: str, values: Any) -> NDArray[Any]:
    expected = signature.input(name)
    dtype = expected.dtype
    if expected.is_string:
        array = _array(name, _bytes(name, values), object, "string")
    else:
        # NumPy would give each value of an array the room of its longest string.
        if str in _types(values):
            raise invalid(f"inputs.{name}: wrong type (got string); {dtype.name} is needed")
        array = _array(name, values, None, dtype.name)
        if expected.numpy_dtype.kind in "iu":
            _check_range(name, values, array, expected.numpy_dtype)
        if array.size and array.dtype.kind not in _KINDS.get(expected.numpy_dtype.kind, ""):
            raise invalid(f"inputs.{name}: wrong type (got {_sample(array)}); {dtype.name} is needed")
    if array.size == 0 and array.ndim == 1 and expected.lengths and len(expected.lengths) > 1:
        # JSON cannot express the width of an empty list of rows.
        array = array.reshape([0, *(length or 0 for length in expected.lengths[1:])])
    expected.check_shape(array.shape)
    return array.astype(expected.numpy_dtype)


def _array(name: str, values: Any, dtype: Any, expected: str) -> NDArray[Any]:
    try:
        return np.array(values, dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise invalid(
            f"inputs.{name}: is not a tensor (got {error}); give lists of {expected} of equal length"
        ) from None


def _check_range(name: str, values: Any, array: NDArray[Any], dtype: Any) -> None:
    """Refuses numbers outside the type's range; NumPy converts those beyond 64 bits to floats or objects."""
    limits = np.iinfo(dtype)
    if array.size == 0 or array.dtype.kind not in "iufO":
        return
    if array.dtype.kind in "iu":
        outside = [int(end) for end in (array.max(), array.min()) if not limits.min <= int(end) <= limits.max]
    else:
        outside = [value for value in _integers(values) if not limits.min <= value <= limits.max]
    if outside:
        raise invalid(
            f"inputs.{name}: outside {limits.dtype.name} (got {outside[0]}); {limits.min} to {limits.max} are allowed"
        )


def _integers(values: Any) -> Iterator[int]:
    if isinstance(values, list):
        for value in values:
            yield from _integers(value)
    elif isinstance(values, int) and not isinstance(values, bool):
        yield values


def _types(values: Any) -> set[type]:
    if not isinstance(values, list):
        return {type(values)}
    found: set[type] = set(map(type, values))
    if list in found:
        found.update(*(_types(value) for value in values if isinstance(value, list)))
    return found


def _bytes(name: str, values: Any) -> Any:
    if isinstance(values, list):
        return [_bytes(name, value) for value in values]
    if isinstance(values, str):
        return values.encode()
    if isinstance(values, dict) and values.keys() == {_B64} and isinstance(values[_B64], str):
        try:
            return base64.b64decode(values[_B64], validate=True)
        except binascii.Error as error:
            raise invalid(f'inputs.{name}: is not Base64 (got {error}); give {{"b64": "..."}}') from None
    raise invalid(f'inputs.{name}: wrong type (got {type(values).__name__}); strings or {{"b64": "..."}} are needed')


def _text(values: Any, is_bytes: bool) -> Any:
    if isinstance(values, list):
        return [_text(value, is_bytes) for value in values]
    try:
        if not is_bytes:
            return values.decode()
    except UnicodeDecodeError:
        pass
    return {_B64: base64.b64encode(values).decode()}


def _sample(array: NDArray[Any]) -> str:
    names = {"f": "float", "i": "int", "u": "int", "b": "bool", "U": "string", "O": "null or mixed values"}
    return names.get(array.dtype.kind, array.dtype.name)
