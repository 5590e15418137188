"""Fields of structs and keys of maps in a sample as columns, by the names that a spec gives them."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.readers.extensions import plain_type
from sangam.components.logs.readers.nested import columns_of, paths_of, places_of

MOST_KEYS = 100
"""Most keys of a map that become columns; a map of more is one of ids."""


def flat(table: pa.Table) -> pa.Table:
    """Returns a table with the fields of structs as columns, and without extension types."""
    kinds = _kinds(table)
    if not table.num_rows or all(
        paths_of(name, kind) == [name] and plain_type(kind) == kind for name, kind in kinds.items()
    ):
        return table
    return _with_columns(table, [path for each in kinds.items() for path in paths_of(*each)])


def with_keys(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Returns tables, which have rows, with a column for each key of a map in any of them, instead of the map."""
    keys: dict[str, dict[str, None]] = {}
    for table in tables:
        for name, kind in _kinds(table).items():
            if pa.types.is_map(kind):
                keys.setdefault(name, {}).update(dict.fromkeys(_keys(table, name)))
    known = {name: sorted(found) for name, found in keys.items() if 0 < len(found) <= MOST_KEYS}
    if not known:
        return list(tables)
    return [_with_columns(table, list(_names(table, known))) for table in tables]


def _kinds(table: pa.Table) -> dict[str, pa.DataType]:
    """Returns the columns' types; of a name that several columns have, which is refused later, none."""
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    return kinds if len(kinds) == len(table.schema.names) else {}


def _keys(table: pa.Table, name: str) -> list[str]:
    """Returns the keys of a map that a path can name."""
    chunks = table.column(name).chunks
    try:
        found = pc.unique(pa.chunked_array([chunk.keys for chunk in chunks]).cast(pa.string())).to_pylist()
    except pa.ArrowException:
        return []
    has_fields = paths_of("", table.schema.field(name).type.item_type) != [""]
    return [key for key in found if key and not (has_fields and "." in key)]


def _names(table: pa.Table, keys: dict[str, list[str]]) -> Iterable[str]:
    for name, kind in _kinds(table).items():
        if name in keys and pa.types.is_map(kind):
            for key in keys[name]:
                yield from paths_of(f"{name}.{key}", kind.item_type)
        else:
            yield name


def _with_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    [batch] = table.combine_chunks().to_batches()
    made = pa.Table.from_batches([columns_of(batch, places_of(names, table.schema.names))])
    return made.replace_schema_metadata(table.schema.metadata)
