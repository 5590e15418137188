"""The Arrow types that a column may have in the files."""

from typing import assert_never

import pyarrow as pa

from sangam.schemas.parts.columns import Column, ColumnType

TARGET: dict[ColumnType, pa.DataType] = {"int": pa.int64(), "float": pa.float32(), "string": pa.binary()}
"""Types of the values in a tf.Example."""


def type_problem(column: Column, kind: pa.DataType) -> str | None:
    """Returns what is wrong with a column's type and what is allowed; None if it fits."""
    if pa.types.is_null(kind):
        return None
    if column.is_list:
        if is_list(kind) and _value_fits(column.type, kind.value_type):
            return None
        return _wrong(column, kind, f"a list of {_ALLOWED[column.type]}")
    # pandas writes labels as doubles as soon as one is missing.
    is_float = pa.types.is_float32(kind) or pa.types.is_float64(kind)
    if _value_fits(column.type, kind) or (column.is_binary and is_float):
        return None
    return _wrong(column, kind, _ALLOWED[column.type])


def _wrong(column: Column, kind: pa.DataType, allowed: str) -> str:
    return "; ".join(filter(None, (f"wrong type (got {kind})", allowed, advice(column.name, kind))))


def advice(name: str, kind: pa.DataType) -> str:
    """Returns how to read a column of a type that no column may have; empty if there is no other way."""
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return f"give its zone under data.columns, as {name}: {{kind: time, zone: UTC}}"
    if pa.types.is_temporal(kind):
        return "write it as an integer or a float"
    if pa.types.is_struct(kind):
        return f"name its fields, such as {name}.{kind.field(0).name}" if kind.num_fields else "it has no fields"
    if pa.types.is_map(kind):
        return f"name its keys, such as {name}.KEY"
    if is_list(kind):
        return _advice_on_values(name, kind.value_type)
    return ""


def _advice_on_values(name: str, kind: pa.DataType) -> str:
    if is_list(kind):
        return "write all values of a row as one list"
    # data.columns declares single values.
    told = "write them as integers or floats" if pa.types.is_temporal(kind) else advice(name, kind)
    return told and f"of its values: {told}"


def is_list(kind: pa.DataType) -> bool:
    """Returns whether values of this type are lists."""
    checks = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(check(kind) for check in checks)


_ALLOWED: dict[ColumnType, str] = {
    "int": "an int column takes integers of any width and booleans",
    "float": "a float column takes floats, decimals and integers of any width, and booleans",
    "string": "a string column takes strings, binary and integers of any width, and dictionaries of strings",
}


def _value_fits(column_type: ColumnType, kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    match column_type:
        case "int":
            return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))
        case "float":
            types = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
            return any(check(kind) for check in types)
        case "string":
            return _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind) or pa.types.is_integer(kind)
        case _:
            assert_never(column_type)


TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
"""Checks of the types that a column of texts may have in a file."""


def _is_text(kind: pa.DataType) -> bool:
    # A decimal is stored as binary of a fixed size, and counts as one.
    return any(check(kind) for check in (*TEXT, *BINARY)) and not pa.types.is_decimal(kind)
