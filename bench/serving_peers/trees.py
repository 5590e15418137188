"""The features of trees: numbers, categories, and how often each task's label was 1 for an id on the days before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.demo import CONTEXT
from bench.lagged import before, rates

_NUMBERS = ("duration_s", "post_age_h", "author_followers", "network_mbps", "hour")
_CATEGORIES = ("language", "tab")
_IDS = ("user_id", "post_id", "author_id", "hashtags")
_PRIOR = 20
"""Rows of the mean label that an id begins with."""


@dataclass(frozen=True)
class TreeTable:
    """Features of all days' rows.

    Attributes:
        x: [rows, features]; NaN where missing.
        is_context: which features are the user's or the request's.
        categories: positions of those that are no numbers.
    """

    x: NDArray[np.float32]
    is_context: NDArray[np.bool_]
    categories: list[int]


def tree_table(days: Sequence[pa.Table], tasks: Sequence[str]) -> TreeTable:
    """Returns the features of the rows of all days, day after day."""
    rows, day = pa.concat_tables(days), np.repeat(np.arange(len(days)), [each.num_rows for each in days])
    columns = [(name, _floats(rows[name])) for name in _NUMBERS]
    columns += [(name, _floats(rows[name].combine_chunks().dictionary_encode().indices)) for name in _CATEGORIES]
    labels = np.stack([_floats(rows[task]) for task in tasks], 1)
    columns += [(name, rates) for name in _IDS for rates in _rates(rows[name].combine_chunks(), labels, day)]
    categories = [position for position, (name, _) in enumerate(columns) if name in _CATEGORIES]
    is_context = np.array([name in CONTEXT for name, _ in columns])
    return TreeTable(np.stack([values for _, values in columns], 1).astype(np.float32), is_context, categories)


def _floats(values: Any) -> NDArray[np.float64]:
    return (
        pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)
        if isinstance(values, pa.Array)
        else _floats(values.combine_chunks())
    )


def _rates(values: pa.Array, labels: NDArray[np.float64], day: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
    """Yields for each task the mean rate of a row's ids before its day, and how often the ids were seen."""
    row = np.arange(len(values))
    if pa.types.is_list(values.type):
        row, values = pc.list_parent_indices(values).to_numpy(), values.flatten()
    id_n = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    day_n, of_row = day[row], np.maximum(np.bincount(row, minlength=len(labels)), 1)
    for label, mean in zip(labels.T, labels[day < day.max()].mean(0), strict=True):
        yield np.bincount(row, rates(id_n, day_n, label[row], mean, _PRIOR), len(labels)) / of_row
    yield np.bincount(row, before(id_n, day_n, np.ones(len(row))), len(labels)) / of_row
