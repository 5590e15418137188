"""Arrow's extension types as what they hold: UUIDs are texts, other values are their storage."""

import pyarrow as pa

from sangam.components.logs.readers.column_types import is_list
from sangam.components.logs.readers.lists import list_array


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of what `plain` returns; lists may be large."""
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return pa.list_(plain_type(kind.value_type)) if _has_extension(kind) else kind


def plain(array: pa.Array) -> pa.Array:
    """Returns an array, also of lists, without extension types."""
    if isinstance(array.type, pa.UuidType):
        return pa.array(map(_text, array.storage.to_pylist()), pa.string())
    if isinstance(array.type, pa.BaseExtensionType):
        return plain(array.storage)
    return list_array(array, plain(array.flatten())) if _has_extension(array.type) else array


def _has_extension(kind: pa.DataType) -> bool:
    return is_list(kind) and plain_type(kind.value_type) != kind.value_type


def _text(value: bytes | None) -> str | None:
    """Returns a UUID as every text format has it."""
    if value is None:
        return None
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
