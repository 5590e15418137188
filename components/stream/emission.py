"""Converts rows whose windows have ended into examples, with the functions of the batch joiner."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from sangam.components.logs.joining.bucket import IS_MATCHED, join_bucket
from sangam.components.logs.joining.notes import is_of_requests
from sangam.components.logs.joining.sides import DAY, ROW, VALUE, numbers_of
from sangam.components.logs.joining.slices import single
from sangam.components.logs.joining.splitting import source_schema
from sangam.components.logs.rows.conversion import convert
from sangam.components.logs.rows.limits import limits_of
from sangam.components.logs.rows.sampling import sampled, sampling_of
from sangam.components.reports.ingestion import EARLIER_ONLY
from sangam.components.stream.reading import Integers, MainFile, OtherFile, key_hashes
from sangam.schemas.contracts.joining_job import JoiningJob
from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.sources import origins
from sangam.schemas.spec.data import TRAIN
from sangam.schemas.spec.sources import StateTable

_LOG = logging.getLogger("sangam.components.stream")
_PLACE = "place of the row"
"""Column added to those of the inputs; no spec can declare a column of this name."""


class Emission:
    """Converts rows into examples."""

    def __init__(self, job: JoiningJob):
        """Takes the joiner's job."""
        self._logs, self._columns = job.logs, columns(job.inputs)
        self._sampling = sampling_of(job.inputs, TRAIN)
        joined = origins(job.logs)
        self._joined = [column for column in self._columns if column.name in joined]

    def examples(
        self, chosen: Sequence[tuple[MainFile, Integers]], others: Sequence[OtherFile], counts: Counter[str]
    ) -> list[tuple[pa.RecordBatch, Integers]]:
        """Returns the examples of each file, and each example's index among the chosen rows of the file.

        Args:
            chosen: files of the main log, and indices of their rows, ascending.
            others: all rows of the sources that are kept.
            counts: counts to add to.
        """
        sides = [
            {name: _rows_of(file.sides[name], file.rows[rows]) for name in self._logs.sources} for file, rows in chosen
        ]
        # Only the rows that the chosen files may need: a join sorts both of its sides.
        related = {
            name: _with_keys_of([of_file[name] for of_file in sides], [each for each in others if each.source == name])
            or pa.RecordBatch.from_pylist([], source_schema(source, self._columns))
            for name, source in self._logs.sources.items()
        }
        return [
            self._of_file(file, rows, of_file, related, counts)
            for (file, rows), of_file in zip(chosen, sides, strict=True)
        ]

    def _of_file(
        self,
        file: MainFile,
        chosen: Integers,
        sides: Mapping[str, pa.RecordBatch],
        related: Mapping[str, pa.RecordBatch],
        counts: Counter[str],
    ) -> tuple[pa.RecordBatch, Integers]:
        batch, kept = file.batch.take(pa.array(chosen)), np.arange(len(chosen))
        if self._logs.sources:
            batch, kept = self._with_joined(file, chosen, batch, sides, related, counts)
        names = [column.name for column in self._columns]
        batch = pa.RecordBatch.from_arrays([_column(batch, name) for name in names], names)
        if self._sampling is not None and batch.num_rows:
            # Which rows stay is a function of their index in the file: the batch joiner keeps the same ones.
            places = pa.array([[place] for place in range(batch.num_rows)], pa.list_(pa.int64()))
            marked = pa.RecordBatch.from_arrays([*batch.columns, places], [*names, _PLACE])
            after = sampled(marked, file.rows[chosen][kept], self._sampling, file.name)
            counts["negatives left out"] += after.num_left_out
            kept = kept[np.asarray(_column(after.batch, _PLACE).flatten())]
            batch = pa.RecordBatch.from_arrays([_column(after.batch, name) for name in names], names)
        counts["examples"] += batch.num_rows
        return batch, kept

    def _with_joined(
        self,
        file: MainFile,
        chosen: Integers,
        batch: pa.RecordBatch,
        sides: Mapping[str, pa.RecordBatch],
        related: Mapping[str, pa.RecordBatch],
        counts: Counter[str],
    ) -> tuple[pa.RecordBatch, Integers]:
        """Adds the columns of the sources; returns the remaining rows, and each one's index among `chosen`."""
        wanted = file.rows[chosen]
        arrays: dict[str, pa.Array] = {}
        stays = np.ones(len(chosen), bool)
        for name, source in sorted(self._logs.sources.items()):
            of_rows = sides[name]
            joined = join_bucket(source, of_rows, related[name], set(numbers_of(of_rows, DAY).tolist()), ())
            assert joined.batch is not None
            order = np.searchsorted(numbers_of(joined.batch, ROW), wanted)
            found = joined.batch.take(pa.array(order))
            for column, array in zip(found.schema.names, found.columns, strict=True):
                if column.startswith(VALUE):
                    arrays[column.removeprefix(VALUE)] = array
                elif column == IS_MATCHED and isinstance(source, StateTable) and source.missing == "drop":
                    stays &= np.asarray(array, dtype=bool)
            for of_day in joined.counts.values():
                for what in ("rows with actions", "rows without actions", EARLIER_ONLY, "rows with a version"):
                    counts[f"{what}: {name}"] += of_day.get(what, 0)
                if of_day.get(EARLIER_ONLY) and is_of_requests(source):
                    _LOG.warning(
                        "source=%s rows=%d: have earlier actions only: clocks differ", name, of_day[EARLIER_ONLY]
                    )
        one = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        converted = convert(one, self._joined, "data.sources", limits=limits_of(self._logs, file.day))
        stays &= np.isin(np.arange(len(chosen)), converted.rows)
        places = np.flatnonzero(stays)
        counts["rows dropped"] += len(chosen) - len(places)
        of_sources = converted.batch.take(pa.array(np.searchsorted(converted.rows, places)))
        main = batch.take(pa.array(places))
        whole = [*main.columns, *of_sources.columns]
        return pa.RecordBatch.from_arrays(whole, [*main.schema.names, *of_sources.schema.names]), places


def _rows_of(side: pa.RecordBatch, rows: Integers) -> pa.RecordBatch:
    """Returns some rows of a file, by their index in it."""
    return side.take(pa.array(np.flatnonzero(np.isin(numbers_of(side, ROW), rows))))


def _with_keys_of(rows: Sequence[pa.RecordBatch], others: Sequence[OtherFile]) -> pa.RecordBatch | None:
    """Returns the part of a source that may belong to some rows; None if there is none."""
    wanted = np.unique(np.concatenate([key_hashes(of_file) for of_file in rows]))
    if not len(wanted):
        return None
    parts = []
    for other in others:
        places = np.searchsorted(wanted, other.hashes) % len(wanted)
        found = np.flatnonzero(wanted[places] == other.hashes)
        if len(found):
            parts.append(other.batch.take(pa.array(found)))
    return single(parts) if parts else None


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))
