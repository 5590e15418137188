"""Fields of structs as columns: `user.id` of a struct `user`, `items.id` of a list of structs `items`."""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.readers.column_types import is_list

_ELEMENTS = ("element", "item", "array")
"""Names that writers of Parquet give to the values of a list; a path may have them."""


Place = tuple[str, tuple[str, ...]]
"""A column of a file, and the fields below it; none: the column itself."""


def places_of(names: Iterable[str], present: Iterable[str]) -> dict[str, Place]:
    """Returns the place of each column or field that a file has, by name.

    Args:
        names: names of columns, or paths of fields.
        present: columns of the file.
    """
    known = frozenset(present)
    return {name: place for name in names if (place := _place(name, known))}


def type_of(place: Place, schema: pa.Schema) -> pa.DataType | None:
    """Returns the type of a column or a field; None if there is no such field."""
    root, parts = place
    return _type_at(schema.field(root).type, list(parts))


def columns_of(batch: pa.RecordBatch, places: Mapping[str, Place]) -> pa.RecordBatch:
    """Returns columns and fields of structs by their names; a field of a list of structs is a list."""
    positions = {name: position for position, name in enumerate(batch.schema.names)}
    arrays = [_at(batch.column(positions[root]), list(parts)) for root, parts in places.values()]
    return pa.RecordBatch.from_arrays(arrays, list(places))


def _place(name: str, known: frozenset[str]) -> Place | None:
    if name in known:
        return name, ()
    parts = name.split(".")
    for number in range(len(parts) - 1, 0, -1):
        if (root := ".".join(parts[:number])) in known:
            return root, tuple(parts[number:])
    return None


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
