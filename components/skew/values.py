"""When two values of a column are equal, for all types of columns.

Values are those of `joining/canonical.py`: int64, float64 or binary, or lists of them, with null for a missing value.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.readers.column_types import is_list
from sangam.components.logs.readers.lists import lengths_of

Mask = NDArray[np.bool_]


def missing(values: pa.Array) -> Mask:
    """Returns which values are missing: a float that is not finite, and an empty list, too."""
    if is_list(values.type):
        return lengths_of(values) == 0
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    return np.asarray(values.is_null(), dtype=bool)


def differing(served: pa.Array, offline: pa.Array) -> Mask:
    """Returns which pairs differ. Floats are equal if they are so to the model, in float32; missing values are equal.

    Args:
        served: values.
        offline: as many, of the same type.
    """
    if not is_list(served.type):
        return _differing(served, offline)
    lengths, others = lengths_of(served), lengths_of(offline)
    is_as_long = lengths == others
    at = np.flatnonzero(is_as_long)
    within = _differing(served.take(pa.array(at)).flatten(), offline.take(pa.array(at)).flatten())
    result: Mask = ~is_as_long
    result[np.repeat(at, lengths[at])[within]] = True
    return result


def _differing(served: pa.Array, offline: pa.Array) -> Mask:
    is_missing, is_missing_offline = missing(served), missing(offline)
    both = ~is_missing & ~is_missing_offline
    result: Mask = is_missing != is_missing_offline
    if pa.types.is_floating(served.type):
        result[both] = numbers(served)[both].astype(np.float32) != numbers(offline)[both].astype(np.float32)
    else:
        result[both] = np.asarray(pc.fill_null(pc.not_equal(served, offline), False), dtype=bool)[both]
    return result


def numbers(values: pa.Array) -> NDArray[np.float64]:
    """Returns numbers as floats, with NaN for a missing one."""
    return np.asarray(values.cast(pa.float64()).fill_null(np.nan))
