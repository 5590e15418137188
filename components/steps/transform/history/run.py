"""The history of a run's days: a folder of tables for each, and the newest tables beside the graph."""

import itertools
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.examples.by_day import ByDay
from sangam.components.examples.listing import DayExamples, Listing
from sangam.components.steps.transform.history.counts import CountDay, Counts
from sangam.components.steps.transform.history.keys import KeysFn
from sangam.components.steps.transform.history.tables import read_tables, table_of, write_tables
from sangam.components.steps.transform.history.window import Window
from sangam.schemas.contracts.history import FOLDER
from sangam.schemas.derived.columns import history_of
from sangam.schemas.derived.days import Day, parse_day
from sangam.schemas.derived.history import By, counted, history_groups
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import EVAL, TRAIN

_LOG = logging.getLogger(__name__)
_STEP, _OF_DAYS = "history", "history-of-days"
_ROWS_AT_ONCE = 1 << 20
_MOST_HELD_BYTES = 256 * 2**20
"""Bytes of counts that stay in memory: windows, and the statistics of each group, read them again."""


class RunHistory:
    """The history before each day of a run.

    Rows of a train or validation day use the tables as of that day. All evaluation days use those as of the first one,
    the newest tables: the exported model contains them, and has no later ones when it serves.
    """

    def __init__(self, inputs: Inputs, listing: Listing, first: Day, graph: str, code: str, keys_fn: KeysFn):
        """Takes the examples and features to count.

        Args:
            inputs: inputs of the spec.
            listing: listing of the examples.
            first: first day of the run's window, even if the base has learned it.
            graph: folder of the graph.
            code: digest of the step's code.
            keys_fn: converts columns to keys.
        """
        self._inputs, self._listing, self._first, self._graph = inputs, listing, first, Path(graph)
        self._count, self.keys_fn = CountDay(keys_fn, inputs), keys_fn
        self._by_day = ByDay(_STEP, (code, *self._count.key()), self._count)
        self._held: dict[DayExamples, dict[By, Counts]] = {}
        self._held_bytes = 0

    def complete(self, pipeline: Callable[[], beam.Pipeline]) -> None:
        """Counts the days without counts of an earlier run, and writes the tables of all days."""
        evaluated = self._listing.splits[EVAL]
        learned = {day.day: day for split, days in self._listing.splits.items() if split != EVAL for day in days}
        days = {day.day: day for day in self._listing.history} | learned
        self._by_day.complete(days.values(), pipeline)
        tasks = counted(self._inputs)
        windows = [
            Window(group, len(tasks[group.by]), self._first, self._counts_of) for group in history_groups(self._inputs)
        ]
        for name, day in sorted(days.items(), key=lambda item: str(item[0])):
            counts = self._counts_of(day)
            if name in learned:
                self._write_day(day, windows, counts)
            for window in windows:
                window.add(day, counts)
        as_of = str(evaluated[0].day)
        for window in windows:
            window.move_to(parse_day(as_of))
        tables = [table_of(self._inputs, window.group, window.counts) for window in windows]
        write_tables(self._graph / FOLDER, as_of, tables)
        keys = json.dumps([[table.group.features, len(table.keys_n)] for table in tables])
        _LOG.info("event=history as_of=%s days=%s keys=%s", as_of, len(days), keys)

    def folder(self, split: str, day: DayExamples) -> str:
        """Returns the folder of the tables for a day's rows."""
        return str(self._graph / FOLDER if split == EVAL else self._graph / _OF_DAYS / str(day.day))

    def train_values(self, names: tuple[str, ...]) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """Yields the features' columns of all train rows, in no particular order, and how many rows belong together;
        all features are of one group."""
        together: list[NDArray[np.float32]] = []
        for values_RF in self._train_values(names):
            if together and sum(map(len, together)) + len(values_RF) > _ROWS_AT_ONCE:
                yield _batch(names, together)
                together = []
            together.append(values_RF)
        if together:
            yield _batch(names, together)

    def _train_values(self, names: tuple[str, ...]) -> Iterator[NDArray[np.float32]]:
        """Yields the features of the rows of a day, or of a part of a large day."""
        for day in self._listing.splits[TRAIN]:
            counts = self._counts_of(day)
            for table in read_tables(Path(self.folder(TRAIN, day))):
                at = [table.group.features.index(name) for name in names if name in table.group.features]
                if not at:
                    continue
                counts_n = counts[table.group.by]
                rows_n = counts_n.sums_nS[:, 0].astype(np.int64)
                values_nF = table.values_of(counts_n.keys_n)[:, at]
                for part in _parts(rows_n):
                    yield np.repeat(values_nF[part], rows_n[part], axis=0)

    def remove_days(self) -> None:
        """Removes all tables but the newest, once the examples are mapped."""
        shutil.rmtree(self._graph / _OF_DAYS, ignore_errors=True)

    def _write_day(self, day: DayExamples, windows: list[Window], counts: dict[By, Counts]) -> None:
        """Writes a day's tables: only its own keys, with the values of all days before it."""
        tables = []
        for window in windows:
            window.move_to(parse_day(str(day.day)))
            keys_n = counts[window.group.by].keys_n
            tables.append(table_of(self._inputs, window.group, window.counts, keys_n))
        write_tables(Path(self.folder(TRAIN, day)), str(day.day), tables)

    def _counts_of(self, day: DayExamples) -> dict[By, Counts]:
        if day in self._held:
            return self._held[day]
        counts = self._count.parsed(self._by_day.results([day]))
        self._held_bytes += sum(each.num_bytes for each in counts.values())
        if self._held_bytes <= _MOST_HELD_BYTES:
            self._held[day] = counts
        return counts


def _parts(rows_n: NDArray[np.int64]) -> Iterator[slice]:
    """Yields ranges of consecutive keys whose rows together fill about one batch."""
    group_n = np.cumsum(rows_n) // _ROWS_AT_ONCE
    bounds = np.append(np.flatnonzero(np.diff(group_n, prepend=-1)), len(rows_n))
    yield from itertools.starmap(slice, itertools.pairwise(bounds.tolist()))


def _batch(names: tuple[str, ...], together: Sequence[NDArray[np.float32]]) -> tuple[pa.RecordBatch, list[int]]:
    values_RF = np.concatenate(together)
    offsets = pa.array(np.arange(len(values_RF) + 1, dtype=np.int32))
    lists = [pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values_R))) for values_R in values_RF.T]
    return pa.RecordBatch.from_arrays(lists, [history_of(name) for name in names]), list(map(len, together))
