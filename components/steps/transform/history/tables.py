"""Values of features by key, as of a day: computed from sums, written to a folder, and read from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.transform.history.counts import Counts
from sangam.schemas.contracts.history import FILE_NAME, History, HistoryTable, keys_file, values_file
from sangam.schemas.derived.history import HistoryGroup, counted, history_features
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.features import CountFeature, HistoryFeature, RateFeature

_NO_ID = 0
"""Key of rows without an id, which read the defaults."""

# Shape suffixes: n keys of a table, m requested keys; F features of a table; S sums.


@dataclass(frozen=True)
class Table:
    """Values of a group's features.

    Attributes:
        group: group of the features.
        keys_n: int64, ascending, each once.
        values_nF: values of the features, float32.
        default_F: values of other keys, float32; NaN: missing.
    """

    group: HistoryGroup
    keys_n: NDArray[np.int64]
    values_nF: NDArray[np.float32]
    default_F: NDArray[np.float32]

    def values_of(self, keys_m: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the features of any keys: [m, F]."""
        if not len(self.keys_n):
            return np.repeat(self.default_F[None], len(keys_m), axis=0)
        number_m = np.minimum(np.searchsorted(self.keys_n, keys_m), len(self.keys_n) - 1)
        is_known_m = self.keys_n[number_m] == keys_m
        return np.where(is_known_m[:, None], self.values_nF[number_m], self.default_F)


def table_of(inputs: Inputs, group: HistoryGroup, counts: Counts, keys: NDArray[np.int64] | None = None) -> Table:
    """Returns the values derived from the sums of the window's days.

    Args:
        inputs: inputs of the spec.
        group: group of the features.
        counts: counts of the window's days.
        keys: keys of the table, ascending; None: all counted keys.
    """
    tasks = counted(inputs)[group.by]
    found = counts if keys is None else counts.of_keys(keys)
    has_id = found.keys_n != _NO_ID
    totals_S = counts.sums_nS.sum(axis=0)
    columns = [_values(history_features(inputs)[name], tasks, found.sums_nS, totals_S) for name in group.features]
    values_nF = np.stack([values_n for values_n, _ in columns], 1)[has_id]
    return Table(group, found.keys_n[has_id], values_nF, np.asarray([default for _, default in columns], np.float32))


def _values(
    feature: HistoryFeature, tasks: Sequence[str], sums_nS: NDArray[np.float64], totals_S: NDArray[np.float64]
) -> tuple[NDArray[np.float32], float]:
    """Returns a feature's value for each key, and its default."""
    match feature:
        case CountFeature():
            return sums_nS[:, 0].astype(np.float32), 0.0
        case RateFeature():
            at = 1 + 2 * tasks.index(feature.task)
            prior, (count, total) = feature.prior, totals_S[at : at + 2].tolist()
            if prior is None:
                prior = total / count if count else math.nan
            smoothed_n = (sums_nS[:, at + 1] + feature.smoothing * prior) / (sums_nS[:, at] + feature.smoothing)
            return smoothed_n.astype(np.float32), prior


def write_tables(folder: Path, as_of: str, tables: Sequence[Table]) -> None:
    """Writes the tables of a day; see `sangam.schemas.contracts.history`."""
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        np.save(folder / keys_file(number), table.keys_n)
        np.save(folder / values_file(number), table.values_nF)
    described = [HistoryTable(by=dict(table.group.by), defaults=_defaults(table)) for table in tables]
    (folder / FILE_NAME).write_text(History(as_of=as_of, tables=tuple(described)).model_dump_json(indent=2) + "\n")


def _defaults(table: Table) -> dict[str, float | None]:
    values = zip(table.group.features, table.default_F.tolist(), strict=True)
    return {name: None if math.isnan(value) else value for name, value in values}


def read_tables(folder: Path) -> list[Table]:
    """Returns the tables in a folder. All processes of a machine share one copy in memory."""
    described = History.model_validate_json((folder / FILE_NAME).read_bytes()).tables
    return [
        Table(
            HistoryGroup(tuple(table.by.items()), None, tuple(table.defaults)),
            np.load(folder / keys_file(number), mmap_mode="r"),
            np.load(folder / values_file(number), mmap_mode="r"),
            np.asarray([math.nan if each is None else each for each in table.defaults.values()], np.float32),
        )
        for number, table in enumerate(described)
    ]
