"""Fields of structs and keys of maps as columns: `user.id` of a struct or map, `items.id` of a list of structs."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.readers.column_types import is_list
from sangam.components.logs.readers.extensions import plain, plain_type
from sangam.components.logs.readers.lists import list_array

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
    """Returns the type of a column, a field or a key; None if there is no such field."""
    root, parts = place
    return _type_at(schema.field(root).type, list(parts))


def keys_of(places: Mapping[str, Place], schema: pa.Schema) -> frozenset[str]:
    """Returns the names that are keys of maps, which only the rows show to be there."""
    return frozenset(
        name
        for name, (root, parts) in places.items()
        if any(
            (kind := _type_at(schema.field(root).type, list(parts[:depth]))) is not None and pa.types.is_map(kind)
            for depth in range(len(parts))
        )
    )


def columns_of(batch: pa.RecordBatch, places: Mapping[str, Place]) -> pa.RecordBatch:
    """Returns columns, fields and values of keys by their names; a field of a list of structs is a list."""
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
        return plain_type(kind)
    if pa.types.is_map(kind):
        key, below = _key(parts, kind)
        return _type_at(kind.item_type, below) if key is not None else None
    if pa.types.is_struct(kind):
        index = kind.get_field_index(parts[0])
        return _type_at(kind.field(index).type, parts[1:]) if index >= 0 else None
    if is_list(kind):
        found = _type_at(kind.value_type, _below_list(parts, kind.value_type))
        return pa.list_(found) if found is not None else None
    return None


def _at(array: pa.Array, parts: list[str]) -> pa.Array:
    if not parts:
        return plain(array)
    if pa.types.is_map(array.type):
        key, below = _key(parts, array.type)
        return _at(pc.map_lookup(array, key, "last"), below)
    if pa.types.is_struct(array.type):
        return _at(pc.struct_field(array, [array.type.get_field_index(parts[0])]), parts[1:])
    return list_array(array, _at(array.flatten(), _below_list(parts, array.type.value_type)))


def _below_list(parts: Sequence[str], kind: pa.DataType) -> list[str]:
    is_field = pa.types.is_struct(kind) and kind.get_field_index(parts[0]) >= 0
    return list(parts[1:] if parts[0] in _ELEMENTS and not is_field else parts)


def _key(parts: list[str], kind: pa.MapType) -> tuple[pa.Scalar | None, list[str]]:
    """Returns the key of a map that a path names, None if no key is like it, and the path below it.

    A key of single values may have points.
    """
    has_fields = pa.types.is_struct(kind.item_type) or pa.types.is_map(kind.item_type) or is_list(kind.item_type)
    name, below = (parts[0], parts[1:]) if has_fields else (".".join(parts), [])
    try:
        return pa.scalar(name, pa.string()).cast(kind.key_type), below
    except pa.ArrowException:
        return None, below
