"""Values that are missing although a file holds them; every format and every reader of rows asks here."""

import pyarrow as pa
import pyarrow.compute as pc

from sangam.schemas.derived.rank_inputs import MISSING


def without_missing(values: pa.Array) -> pa.Array:
    """Returns values with null for an empty text, and for the least int64, which requests send instead of no integer.

    Floats are unchanged: readers of rows treat NaN and infinity as missing.
    """
    kind, types = values.type, pa.types
    if types.is_int64(kind):
        is_missing = pc.equal(values, pa.scalar(MISSING["int"], pa.int64()))
    elif types.is_binary(kind) or types.is_large_binary(kind) or types.is_string(kind) or types.is_large_string(kind):
        is_missing = pc.equal(pc.binary_length(values), 0)
    else:
        return values
    if not pc.any(is_missing).as_py():
        return values
    return pc.if_else(pc.fill_null(is_missing, True), pa.scalar(None, kind), values)
