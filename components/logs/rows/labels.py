"""Labels of 0 and 1, and the masks that select a task's examples."""

import pyarrow as pa
import pyarrow.compute as pc

from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column


def labels_of(array: pa.Array, column: Column, path: str) -> pa.Array:
    """Returns as int64 what was written as floats, as pandas does if one value is missing; NaN is missing.

    Raises:
        UserError: a value is neither 0 nor 1.
    """
    floats = array.cast(pa.float64())
    known = pc.if_else(pc.is_nan(floats), pa.scalar(None, pa.float64()), floats)
    wrong = known.filter(pc.and_(pc.not_equal(known, 0), pc.not_equal(known, 1)))
    if len(wrong):
        raise not_binary(wrong[0].as_py(), column, path)
    return known.cast(pa.int64())


def not_binary(value: float, column: Column, path: str) -> UserError:
    """Returns the error on a value other than 0 and 1."""
    what = "a binary label" if column.is_label else "a mask of examples"
    return UserError(
        f"{path}: column '{column.name}': is not {what} (got {value}); 0 or 1, or no value if it is not known"
    )
