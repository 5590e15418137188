"""Rows of a DataFrame as a request for `rank`: one list of values for each input of the model."""

import datetime
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sangam.schemas.derived.rank_inputs import LENGTH, MISSING, input_name
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import ColumnType

_TYPES: dict[str, ColumnType] = {"DT_STRING": "string", "DT_INT64": "int", "DT_FLOAT": "float"}
_TIMES = "times as seconds since 1970, or with a time zone"
_NEEDS = {"string": "texts: .astype(str)", "int": f"whole numbers, {_TIMES}", "float": f"numbers, {_TIMES}"}
_EXACT = 2**53
"""Floats count every integer up to here."""

Rows = Mapping[str, Sequence[Any]]
"""Values of all rows by column."""


@dataclass(frozen=True)
class Input:
    """A column that the model reads.

    Attributes:
        is_list: whether a row has a list of values.
    """

    type: ColumnType
    is_list: bool


def inputs_of_signature(inputs: Mapping[str, Any]) -> dict[str, Input]:
    """Returns the columns that `rank` reads, from the server's description of its inputs; lengths belong to lists.

    Raises:
        UserError: an input has another type than those of an exported ranker.
    """
    found = {}
    for name, told in inputs.items():
        if told["dtype"] not in _TYPES:
            raise UserError(f"model: input {name} has no type of a column (got {told['dtype']}); serve a ranker")
        is_list = len(told["tensor_shape"].get("dim", ())) > 1
        if not (name.endswith(LENGTH) and name.removesuffix(LENGTH) in inputs):
            found[name] = Input(_TYPES[told["dtype"]], is_list)
    return found


def columns_of(inputs: Collection[str], given: Collection[str]) -> dict[str, str]:
    """Returns the given column of each input; other columns, such as labels, are not sent.

    Raises:
        UserError: a column is missing, or two stand for one input.
    """
    found: dict[str, str] = {}
    for column in given:
        name = input_name(str(column))
        if name in inputs and found.setdefault(name, column) != column:
            raise UserError(f"columns: both are the model's {name} (got {found[name]}, {column}); leave one out")
    if missing := sorted(set(inputs) - found.keys()):
        shown = ", ".join(sorted(map(str, given))) or "none"
        raise UserError(f"columns: {', '.join(missing)} missing (got {shown}); the model reads {', '.join(inputs)}")
    return found


def request_of(inputs: Mapping[str, Input], columns: Mapping[str, str], rows: Rows) -> dict[str, list[Any]]:
    """Returns the values of each input; lists are padded, with their lengths beside them.

    Args:
        inputs: what the model reads.
        columns: the column of each input.
        rows: values of the rows.

    Raises:
        UserError: a value has another type than the model's.
    """
    request: dict[str, list[Any]] = {}
    for name, needed in inputs.items():
        column = columns[name]
        values = rows[column]
        if not needed.is_list:
            request[name] = [_value(column, value, needed.type) for value in values]
            continue
        lists = [_list(column, value, needed.type) for value in values]
        width, padding = max(map(len, lists), default=0), _MISSING[needed.type]
        request[name] = [each + [padding] * (width - len(each)) for each in lists]
        request[name + LENGTH] = list(map(len, lists))
    return request


def _list(column: str, value: Any, kind: ColumnType) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_value(column, each, kind) for each in value]
    if is_missing(value):
        return []
    raise UserError(f"column {column}: is not a list (got {value!r}); the model reads lists of {_NEEDS[kind]}")


def _value(column: str, value: Any, kind: ColumnType) -> Any:
    if is_missing(value):
        return _MISSING[kind]
    converted = _CONVERT[kind](value)
    if converted is None:
        raise UserError(f"column {column}: wrong type (got {value!r}); the model reads {_NEEDS[kind]}")
    return converted


def is_missing(value: Any) -> bool:
    """Returns whether a value stands for none: None, NaN, NaT and pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True  # The truth of pandas' NA is not defined.
    except ValueError:
        return False  # That of an array neither.


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    if isinstance(value, numbers.Integral) or _is_bool(value):
        return int(value)
    # pandas makes floats of integers where some are missing.
    number = _number(value)
    return int(number) if number is not None and number.is_integer() and abs(number) <= _EXACT else None


def _number(value: Any) -> float | None:
    if isinstance(value, datetime.datetime):  # pandas' Timestamp is one.
        return value.timestamp() // 1 if value.tzinfo else None
    return float(value) if isinstance(value, numbers.Real) or _is_bool(value) else None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool_"  # NumPy's is no number to Python.


_CONVERT: dict[ColumnType, Callable[[Any], Any]] = {"string": _text, "int": _integer, "float": _number}
_MISSING: dict[ColumnType, Any] = {**MISSING, "string": ""}
