"""Lengths of lists of any type."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def lengths_of(lists: pa.Array) -> NDArray[np.int64]:
    """Returns the length of each row's list, 0 for a null one; `lists.flatten()` has their values."""
    if pa.types.is_fixed_size_list(lists.type):
        # Arrow has no kernel for their lengths.
        return np.asarray(lists.is_valid()).astype(np.int64) * lists.type.list_size
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)


def list_array(lists: pa.Array, values: pa.Array) -> pa.Array:
    """Returns lists of values, as long as the given lists; a null list is empty.

    Args:
        lists: lists of any type.
        values: a value for each of theirs, concatenated.
    """
    offsets = np.concatenate([[0], np.cumsum(lengths_of(lists))])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
