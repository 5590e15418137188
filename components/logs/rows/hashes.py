"""Hashes of the values of columns: the same for every file, process and machine."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sangam.schemas.host.splitmix64 import GAMMA, mix64

Hashes = NDArray[np.uint64]


def hashes(columns: Sequence[pa.Array]) -> Hashes:
    """Returns a hash of each row: of int64 and binary columns. A null counts as 0 or as an empty text."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for array in columns:
        encoded = array.fill_null(0 if pa.types.is_int64(array.type) else b"").dictionary_encode()
        values: Hashes = (
            np.asarray(encoded.dictionary).view(np.uint64)
            if pa.types.is_int64(array.type)
            else pd.util.hash_array(encoded.dictionary.to_numpy(zero_copy_only=False), categorize=False)
        )
        mixed = mix64(mixed + np.uint64(GAMMA) + (values[np.asarray(encoded.indices)] if len(values) else np.uint64(0)))
    return mixed
