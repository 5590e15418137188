"""The Arrow types that a column may have in the files."""

import pyarrow as pa
from typing_extensions import assert_never

from schemas.derived.columns import Column
from schemas.spec.features import ColumnType

TARGET: dict[ColumnType, pa.DataType] = {"int": pa.int64(), "float": pa.float32(), "string": pa.binary()}
"""Types of the values in a tf.Example."""


def type_problem(column: Column, kind: pa.DataType) -> str | None:
    """Returns what is wrong with a column's type and what is allowed; None if it fits."""
    if pa.types.is_null(kind):
        return None
    if column.is_list:
        if is_list(kind) and _value_fits(column.type, kind.value_type):
            return None
        return f"wrong type (got {kind}); a list of {_ALLOWED[column.type]}"
    if _value_fits(column.type, kind):
        return None
    return f"wrong type (got {kind}); {_ALLOWED[column.type]}"


def is_list(kind: pa.DataType) -> bool:
    """Returns whether values of this type are lists."""
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(check(kind) for check in checks)


_ALLOWED: dict[ColumnType, str] = {
    "int": "an int column takes integers of any width and booleans",
    "float": "a float column takes floats and integers of any width",
    "string": "a string column takes strings, binary and dictionaries of them",
}


def _value_fits(column_type: ColumnType, kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    match column_type:
        case "int":
            return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))
        case "float":
            return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
        case "string":
            return _is_text(kind.value_type) if pa.types.is_dictionary(kind) else _is_text(kind)
        case _:
            assert_never(column_type)


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)
