"""The memory of the tables of rates and counts of earlier days, by the columns of their ids.

`bench.history_memory` measures it (docs/planning.md#rates-and-counts).
"""

from collections.abc import Mapping
from typing import NamedTuple

from sangam.schemas.derived.columns import feature_columns
from sangam.schemas.derived.history import By, HistoryGroup, counted, history_features, history_groups
from sangam.schemas.derived.sizes import FLOAT_BYTES, KEY_BYTES
from sangam.schemas.problems import listed
from sangam.schemas.quantities import shown_bytes
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.features import CrossFeature, IdFeature

_LOADING = 2.7
"""Bytes that a process holds while it loads a table, over the table's own."""
_MERGING = 7
"""Bytes that Transform holds while it adds a day to a window, over those of the window's sums: where each day
has all ids, about half of it where each has others."""
_SUM_BYTES = 8


class HistoryMemory(NamedTuple):
    """The newest table of features of the same ids and days.

    Attributes:
        features: their names.
        by: columns of the ids.
        rows: ids that the table has; None: not known.
        like: table of the spec that has as many rows; empty: the number is given, or not known.
        row_bytes: of a row in the exported model and in each server.
        loading_bytes: of a row, at most, in a process that loads the table: rank 0, the export; online each rank.
        transform_bytes: of a row, at most, in the one process that adds up days.
    """

    features: tuple[str, ...]
    by: tuple[str, ...]
    rows: int | None
    like: str
    row_bytes: int
    loading_bytes: float
    transform_bytes: int

    def text(self) -> str:
        """Returns one line."""
        rows = self.rows or 1
        number = f"{rows:,} rows" + (f", as table {self.like}" if self.like else "")
        if self.rows is None:
            number = f"a row, of how many is not known (add --rows {self.features[0]}=1e6)"
        return (
            f"{listed(list(self.features))}, what happened before by {' and '.join(self.by)}: {number}: "
            f"{shown_bytes(rows * self.row_bytes)} in the exported model and in each server; at most "
            f"{shown_bytes(rows * self.loading_bytes)} in rank 0 and in the export (sangam online: in each rank), "
            f"{shown_bytes(rows * self.transform_bytes)} in transform"
        )


def history_memory(ranker: RankerSpec, tables: Mapping[str, int], given: Mapping[str, int]) -> list[HistoryMemory]:
    """Returns the memory of each table.

    Args:
        ranker: the spec.
        tables: planned rows of the spec's tables.
        given: rows of tables of rates and counts, by the name of one of their features. By default as many as a table
            of ids, or of a cross, of the same columns.
    """
    return [_of_group(ranker, group, tables, given) for group in history_groups(ranker)]


def split_rows(ranker: RankerSpec, given: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the rows of the spec's tables, or of unknown ones, and those of features of kind rate and count."""
    of_history = history_features(ranker).keys() - ranker.tables.keys()
    return (
        {name: rows for name, rows in given.items() if name not in of_history},
        {name: rows for name, rows in given.items() if name in of_history},
    )


def _of_group(
    ranker: RankerSpec, group: HistoryGroup, tables: Mapping[str, int], given: Mapping[str, int]
) -> HistoryMemory:
    rows, like = max((given[name] for name in group.features if name in given), default=None), ""
    if rows is None and (like := _table_of(ranker, group.by)):
        rows = tables[like]
    row_bytes = KEY_BYTES + FLOAT_BYTES * len(group.features)
    sums = KEY_BYTES + _SUM_BYTES * (1 + 2 * len(counted(ranker)[group.by]))
    by = tuple(column for column, _ in group.by)
    return HistoryMemory(group.features, by, rows, like, row_bytes, _LOADING * row_bytes, _MERGING * sums)


def _table_of(ranker: RankerSpec, by: By) -> str:
    """Returns the table of the first feature of the same ids; empty if there is none."""
    for name, feature in ranker.features.items():
        if isinstance(feature, IdFeature | CrossFeature):
            read = {column.name for column in feature_columns(ranker, name)}
            if read == {column for column, _ in by}:
                return feature.table
    return ""
