"""Reads a message array by array, and refuses unexpected arrays."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.trainer_module.parameter_server.wire import MessageError


class Reader:
    """Takes the arrays of a message in order, each with its expected type."""

    def __init__(self, arrays: list[NDArray[Any]]):
        """Takes the arrays."""
        self._left = list(reversed(arrays))

    def take(self, kind: Any, dimensions: int, width: int | None = None) -> NDArray[Any]:
        """Returns the next array.

        kind: the dtype.
        dimensions: number of dimensions.
        width: size of the last dimension; None: any.

        Raises:
            MessageError: the array has another type or shape, or is missing.
        """
        array = self._left.pop() if self._left else None
        if array is None or array.dtype != kind or array.ndim != dimensions or (width and array.shape[1] != width):
            got = "none" if array is None else f"{array.dtype} {array.shape}"
            raise MessageError(
                f"expected {np.dtype(kind)} of {dimensions} dimensions, {width or 'any'} wide (got {got})"
            )
        return array

    def numbers(self, count: int) -> list[int]:
        """Returns the next array of `count` integers."""
        array = self.take(np.int64, 1)
        if len(array) != count:
            raise MessageError(f"expected {count} numbers (got {len(array)})")
        return [int(number) for number in array]

    def end(self) -> None:
        """Refuses further arrays."""
        if self._left:
            raise MessageError(f"{len(self._left)} arrays too many")


def numbers_of(*numbers: int) -> NDArray[np.int64]:
    """Returns integers as an array."""
    return np.array(numbers, np.int64)


def document(arrays: list[NDArray[Any]]) -> dict[str, Any]:
    """Returns the JSON object in the first array.

    Raises:
        MessageError: it is missing or not a JSON object.
    """
    try:
        found = json.loads(arrays[0].tobytes())
    except (IndexError, ValueError) as error:
        raise MessageError(f"expected JSON ({error})") from error
    if not isinstance(found, dict):
        raise MessageError("expected a JSON object")
    return found


def document_of(content: dict[str, Any]) -> NDArray[np.uint8]:
    """Returns a JSON object as an array."""
    return np.frombuffer(json.dumps(content).encode(), np.uint8)
