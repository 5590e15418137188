"""Rows whose windows are over become examples, by the functions of the batch joiner."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from components.steps.example_gen.joining.bucket import IS_MATCHED, join_bucket
from components.steps.example_gen.joining.sides import DAY, ROW, VALUE, numbers_of
from components.steps.example_gen.joining.slices import single
from components.steps.example_gen.joining.splitting import source_schema
from components.steps.example_gen.rows.conversion import convert
from components.steps.example_gen.rows.limits import limits_of
from components.steps.example_gen.rows.sampling import sampled, sampling_of
from components.stream.reading import Integers, MainFile, OtherFile
from schemas.contracts.joining_job import JoiningJob
from schemas.derived.columns import columns
from schemas.derived.sources import origins
from schemas.spec.data import TRAIN
from schemas.spec.sources import StateTable

_PLACE = "place of the row"
"""A column beside those of the inputs, which no spec can declare twice."""


class Emission:
    """Makes examples."""

    def __init__(self, job: JoiningJob):
        """Takes the joiner's job."""
        self._logs, self._columns = job.logs, columns(job.inputs)
        self._sampling = sampling_of(job.inputs, TRAIN)
        joined = origins(job.logs)
        self._joined = [column for column in self._columns if column.name in joined]

    def examples(
        self, file: MainFile, chosen: Integers, others: Sequence[OtherFile], counts: Counter[str]
    ) -> tuple[pa.RecordBatch, Integers]:
        """Returns the examples of some rows of a file, and each one's place among `chosen`.

        Args:
            file: of the main log.
            chosen: indices of its rows, ascending.
            others: everything of the sources that is kept.
            counts: are added to.
        """
        batch, kept = file.batch.take(pa.array(chosen)), np.arange(len(chosen))
        if self._logs.sources:
            batch, kept = self._with_joined(file, chosen, batch, others, counts)
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
        others: Sequence[OtherFile],
        counts: Counter[str],
    ) -> tuple[pa.RecordBatch, Integers]:
        """Adds the columns of the sources; returns the rows that stay, and each one's place among `chosen`."""
        wanted = file.rows[chosen]
        arrays: dict[str, pa.Array] = {}
        stays = np.ones(len(chosen), bool)
        for name, source in sorted(self._logs.sources.items()):
            side = file.sides[name]
            of_rows = side.take(pa.array(np.flatnonzero(np.isin(numbers_of(side, ROW), wanted))))
            schema = source_schema(source, self._columns)
            parts = [other.batch for other in others if other.source == name]
            other = single(parts) if parts else pa.RecordBatch.from_pylist([], schema)
            joined = join_bucket(source, of_rows, other, set(numbers_of(of_rows, DAY).tolist()), ())
            assert joined.batch is not None
            order = np.searchsorted(numbers_of(joined.batch, ROW), wanted)
            found = joined.batch.take(pa.array(order))
            for column, array in zip(found.schema.names, found.columns, strict=True):
                if column.startswith(VALUE):
                    arrays[column.removeprefix(VALUE)] = array
                elif column == IS_MATCHED and isinstance(source, StateTable) and source.missing == "drop":
                    stays &= np.asarray(array, dtype=bool)
            for of_day in joined.counts.values():
                for what in ("rows with actions", "rows without actions", "rows with a version"):
                    counts[f"{what}: {name}"] += of_day.get(what, 0)
        one = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        converted = convert(one, self._joined, "data.sources", limits=limits_of(self._logs, file.day))
        stays &= np.isin(np.arange(len(chosen)), converted.rows)
        places = np.flatnonzero(stays)
        counts["rows dropped"] += len(chosen) - len(places)
        of_sources = converted.batch.take(pa.array(np.searchsorted(converted.rows, places)))
        main = batch.take(pa.array(places))
        whole = [*main.columns, *of_sources.columns]
        return pa.RecordBatch.from_arrays(whole, [*main.schema.names, *of_sources.schema.names]), places


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))
