"""Joins the rows of several requests for one call of the model, and divides its outputs among them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.server.session import Arrays
from sangam.components.server.signature import Signature
from sangam.schemas.derived.rank_inputs import LENGTH, REQUEST_NUMBER

_FREE_VALUES = 20_000
"""Padding values that a joined call may compute: a separate call would cost as much."""
_MOST_TIMES = 3.0

# Shape suffixes: R rows of one input of a request, 1 or N; N rows of the request; L lengths of the other dimensions.


class Joined:
    """Requests of one signature, each input of which has one row or N.

    A column with a single row in every request has a row for each in the call, if the signature takes requests. Other
    single rows are repeated for all rows of their request, and lists padded, up to a limit: a request with many
    candidates and a long list of the user costs less in a separate call.

    Attributes:
        parts: inputs of each request.
        num_rows: number of rows of all requests.
    """

    def __init__(self, signature: Signature, arrays: Arrays, num_rows: int, max_bytes: int):
        """Starts with one request; `max_bytes` limits each joined input."""
        self._signature, self._max_bytes = signature, max_bytes
        self.parts, self._rows = [arrays], [num_rows]
        self.num_rows = num_rows
        self._single: frozenset[str] = frozenset()
        self._lengths: dict[str, tuple[int, ...]] = {}
        self._own_values = 0

    def add(self, arrays: Arrays, num_rows: int) -> bool:
        """Adds a request; returns False without adding it if a separate call is cheaper."""
        if not self._lengths:
            self._begin()
        if not self._is_sound or not _has_sound_lists(arrays):
            return False
        lengths = {name: _longest(self._lengths[name], array.shape[1:]) for name, array in arrays.items()}
        rows = self.num_rows + num_rows
        single, requests = self._single & _single(arrays), len(self.parts) + 1
        of_inputs = {
            name: (requests if name in single else rows) * math.prod(longest) for name, longest in lengths.items()
        }
        own = self._own_values + _values(arrays)
        if sum(of_inputs.values()) > _MOST_TIMES * own + _FREE_VALUES:
            return False
        if any(
            values * self._signature.inputs[name].value_bytes > self._max_bytes for name, values in of_inputs.items()
        ):
            return False
        self.parts.append(arrays)
        self._rows.append(num_rows)
        self.num_rows, self._lengths, self._own_values, self._single = rows, lengths, own, single
        return True

    def _begin(self) -> None:
        # Deferred, since most requests are never joined.
        [first] = self.parts
        self._lengths = {name: array.shape[1:] for name, array in first.items()}
        self._own_values, self._is_sound = _values(first), _has_sound_lists(first)
        if self._signature.takes_requests:
            self._single = _single(first)

    def arrays(self) -> Arrays:
        """Returns the inputs of the call."""
        if len(self.parts) == 1:
            return self.parts[0]
        joined = {
            name: np.concatenate(
                [
                    _full(part[name], 1 if name in self._single else rows, lengths)
                    for part, rows in zip(self.parts, self._rows, strict=True)
                ]
            )
            for name, lengths in self._lengths.items()
        }
        if self._signature.takes_requests:
            joined[REQUEST_NUMBER] = np.repeat(np.arange(len(self.parts), dtype=np.int32), self._rows)
        return joined

    def divided(self, outputs: dict[str, NDArray[Any]]) -> list[dict[str, NDArray[Any]]] | None:
        """Returns the outputs of each request; None if they do not have a row for each of the inputs'."""
        if len(self.parts) == 1:
            return [outputs]
        if any(array.shape[:1] != (self.num_rows,) for array in outputs.values()):
            return None
        ends = np.cumsum(self._rows).tolist()
        return [
            {name: array[end - rows : end] for name, array in outputs.items()}
            for rows, end in zip(self._rows, ends, strict=True)
        ]


def _has_sound_lists(arrays: Arrays) -> bool:
    """Returns whether lists have a length for each row, within their width.

    The model refuses a request otherwise, but might not see it once rows are repeated and lists padded.
    """
    for name, length_R in arrays.items():
        list_RL = arrays.get(name.removesuffix(LENGTH)) if name.endswith(LENGTH) else None
        if list_RL is None or list_RL.ndim < 2:
            continue
        if len(list_RL) != len(length_R) or (
            length_R.size and not 0 <= length_R.min() <= length_R.max() <= list_RL.shape[1]
        ):
            return False
    return True


def _single(arrays: Arrays) -> frozenset[str]:
    return frozenset(name for name, array in arrays.items() if len(array) == 1)


def _values(arrays: Arrays) -> int:
    return sum(array.size for array in arrays.values())


def _longest(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(max, one, other))


def _full(array: NDArray[Any], num_rows: int, lengths: Sequence[int]) -> NDArray[Any]:
    """Returns an input with all its rows, padded: R x any lengths to N x L."""
    if array.shape[1:] != tuple(lengths):
        # Strings are padded with empty ones.
        padded = np.full([len(array), *lengths], b"" if array.dtype.kind == "O" else 0, array.dtype)
        padded[tuple(slice(length) for length in array.shape)] = array
        array = padded
    return array if len(array) == num_rows else np.repeat(array, num_rows, axis=0)
