"""The rows that two named splits share: a share of the rows of the train files is the validation split.

A hash of the file's path and the row's number selects them, as for negatives that are kept: the same rows in every run,
whatever the number of workers and the order of the files. So identical rows may be in both splits, as they may be in
logs by day.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.logs.readers.batches import Rows
from sangam.components.logs.rows.sampling import uniform
from sangam.schemas.spec.data import TRAIN, VALIDATION, Parts, SplitLogs

_SALT = b"sangam: rows held out"
"""Salt that makes these hashes independent of other hashes of the same rows."""


@dataclass(frozen=True)
class SplitShare:
    """A split's share of the rows of the train files.

    Attributes:
        split: `train` or `validation`.
        held_out: share of the rows that is the validation split.
    """

    split: str
    held_out: float

    def of(
        self, rows: Rows, is_left_out: Mapping[str, NDArray[np.bool_]], places: NDArray[np.int64], file_name: str
    ) -> tuple[Rows, dict[str, NDArray[np.bool_]], NDArray[np.int64]]:
        """Returns the split's rows of a batch, their masks, and their places.

        Args:
            rows: rows of a file.
            is_left_out: rows to drop, by reason.
            places: index of each row in the file.
            file_name: relative to the data folder.
        """
        is_held_out = uniform(file_name, places, _SALT) < self.held_out
        keep = is_held_out if self.split == VALIDATION else ~is_held_out
        # What cannot be read has no place; it counts once.
        unreadable = rows.num_unreadable if self.split == TRAIN else 0
        mine = replace(rows, batch=rows.batch.filter(pa.array(keep)), num_unreadable=unreadable)
        return mine, {reason: mask[keep] for reason, mask in is_left_out.items()}, places[keep]


def share_of(logs: Parts, split: str) -> SplitShare | None:
    """Returns the share of a split; None where it has all rows of its files."""
    if split not in (TRAIN, VALIDATION) or not isinstance(logs, SplitLogs) or not logs.splits.held_out:
        return None
    return SplitShare(split, logs.splits.held_out)
