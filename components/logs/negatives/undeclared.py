"""Finds columns that have one value per item but are not declared as the item's: in sampled rows they tell the label.

A sampled row has the positive's values in them, beside another item: a model needs only to know which value goes with
which item. Pairs of rows of one item and different users are counted: how many differ in a column, and how many pairs
of any two rows do.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.components.logs.negatives.catalog import RowKeys
from sangam.components.logs.rows.hashes import Hashes, hashes

PAIRS = "pairs"
_OF_ITEM, _OF_ANY = "of one item differ: ", "of any two differ: "
_FEWEST_PAIRS = 30
_MOST_DIFFERENT, _LEAST_VARIED = 0.02, 0.1


def count_pairs(batch: pa.RecordBatch, keys: RowKeys, columns: Iterable[str]) -> Counter[str]:
    """Counts pairs in converted rows: each row and the first one of its item.

    Args:
        batch: rows.
        keys: their hashes.
        columns: columns that are not the item's, as far as the spec says.
    """
    _, first, inverse = np.unique(keys.items, return_index=True, return_inverse=True)
    firsts = first[inverse]
    rows = np.flatnonzero(keys.users != keys.users[firsts])
    counts = Counter({PAIRS: len(rows)})
    if len(rows):
        others = (rows + len(keys.items) // 2) % len(keys.items)
        for name in columns:
            values = _of_rows(batch.column(batch.schema.get_field_index(name)))
            counts[_OF_ITEM + name] = int((values[rows] != values[firsts[rows]]).sum())
            counts[_OF_ANY + name] = int((values[rows] != values[others]).sum())
    return counts


def undeclared(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """Returns the columns with one value per item, of the counts of all files."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    pairs = total[PAIRS]
    names = sorted(name.removeprefix(_OF_ANY) for name in total if name.startswith(_OF_ANY))
    return [
        name
        for name in names
        if pairs >= _FEWEST_PAIRS
        and total[_OF_ITEM + name] <= _MOST_DIFFERENT * pairs
        and total[_OF_ANY + name] >= _LEAST_VARIED * pairs
    ]


def _of_rows(column: pa.ListArray) -> Hashes:
    """Returns a hash of the list of each row."""
    values = column.flatten()
    if pa.types.is_floating(values.type):
        values = pa.array(np.asarray(values.cast(pa.float64())).view(np.int64))
    hashed = hashes([values])
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashed, dtype=np.uint64)])
    ends = np.cumsum(np.asarray(pc.list_value_length(column).fill_null(0)))
    return sums[ends] - sums[np.concatenate([[0], ends[:-1]])]
