"""Fields of structs as columns: `user.id` of a struct `user`, `items.id` of a list of structs `items`."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.readers.column_types import is_list

_ELEMENTS = ("element", "item", "array")
"""Names that writers of Parquet give to the values of a list; a path may have them."""


def roots_of(names: Iterable[str], present: Iterable[str]) -> list[str]:
    """Returns the columns of a file that hold the named columns or fields, each once, in order."""
    known = set(present)
    return list(dict.fromkeys(root for name in names if (root := root_of(name, known))))


def root_of(name: str, present: Iterable[str]) -> str:
    """Returns the column of a file that is the named one, or the struct that holds the field; empty: there is none."""
    known = set(present)
    if name in known:
        return name
    parts = name.split(".")
    candidates = (".".join(parts[:number]) for number in range(len(parts) - 1, 0, -1))
    return next((each for each in candidates if each in known), "")


def type_of(name: str, schema: pa.Schema) -> pa.DataType | None:
    """Returns the type of a column or a field of a struct; None if the schema has neither."""
    root = root_of(name, schema.names)
    if not root:
        return None
    kind = schema.field(root).type
    return _type_at(kind, name[len(root) + 1 :].split(".") if name != root else [])


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column, or the field of a struct as one; a field of a list of structs is a list."""
    root = root_of(name, batch.schema.names)
    array = batch.column(batch.schema.get_field_index(root))
    return _at(array, name[len(root) + 1 :].split(".") if name != root else [])


def paths_of(name: str, kind: pa.DataType) -> list[str]:
    """Returns the names of the columns that a column of a file gives: the fields of structs, otherwise its own."""
    if pa.types.is_struct(kind):
        return [path for field in kind for path in paths_of(f"{name}.{field.name}", field.type)]
    if is_list(kind) and pa.types.is_struct(kind.value_type):
        return [path for field in kind.value_type for path in paths_of(f"{name}.{field.name}", field.type)]
    return [name]


def _type_at(kind: pa.DataType, parts: list[str]) -> pa.DataType | None:
    if not parts:
        return kind
    if pa.types.is_struct(kind):
        index = kind.get_field_index(parts[0])
        return _type_at(kind.field(index).type, parts[1:]) if index >= 0 else None
    if is_list(kind) and pa.types.is_struct(kind.value_type):
        found = _type_at(kind.value_type, _below_list(parts, kind.value_type))
        return pa.list_(found) if found is not None else None
    return None


def _at(array: pa.Array, parts: list[str]) -> pa.Array:
    if not parts:
        return array
    if pa.types.is_struct(array.type):
        return _at(pc.struct_field(array, [array.type.get_field_index(parts[0])]), parts[1:])
    inner = _at(array.flatten(), _below_list(parts, array.type.value_type))
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
    return pa.LargeListArray.from_arrays(offsets, inner)


def _below_list(parts: list[str], kind: pa.DataType) -> list[str]:
    skips = parts[0] in _ELEMENTS and kind.get_field_index(parts[0]) < 0
    return parts[1:] if skips else parts
