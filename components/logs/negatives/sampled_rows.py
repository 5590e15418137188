"""Adds sampled rows to the positives of a day."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sangam.components.logs.negatives.catalog import Catalog, Ints, RowKeys, keys_of
from sangam.components.logs.negatives.drawing import Numbers, drawer, identities
from sangam.components.logs.negatives.undeclared import count_pairs
from sangam.components.logs.rows.conversion import Converted, without
from sangam.components.logs.rows.hashes import Hashes
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import TRAIN
from sangam.schemas.spec.negatives import Negatives

_ROWS_AT_ONCE = 2**16


@dataclass(frozen=True)
class WithSampled:
    """Positives, each followed by its sampled rows.

    Attributes:
        batch: rows.
        num_positives: number of positives.
        num_without: positives without a candidate.
    """

    batch: pa.RecordBatch
    num_positives: int
    num_without: int


def numbers_of(negatives: Negatives, split: str) -> Numbers:
    """Returns the numbers of candidates in a split."""
    wanted = negatives.per_positive if split == TRAIN else negatives.judged_per_positive
    return Numbers(wanted, negatives.judged_per_positive)


def with_created(batch: pa.RecordBatch, negatives: Negatives) -> pa.RecordBatch:
    """Returns rows of the logs with the columns that ingestion creates, as those of positives."""
    created = pa.array(np.ones(batch.num_rows, np.int64))
    names = negatives.created
    return pa.RecordBatch.from_arrays([*batch.columns, *[created] * len(names)], [*batch.schema.names, *names])


class SampledRows:
    """Samples for the rows of one split and day."""

    def __init__(self, negatives: Negatives, inputs: Inputs, catalog: Catalog, split: str, day: str | None):
        """Takes the settings, the inputs, the candidates, and the split and day of the rows."""
        self._negatives, self._event_time, self._catalog = negatives, inputs.event_time, catalog
        self._numbers, self._day = numbers_of(negatives, split), day or split
        self._draw = drawer(negatives.draw, catalog, negatives.item)
        self._other_labels = {inputs.label_of(name) for name in inputs.tasks} - {negatives.label}
        self._after_event = {column.name for column in columns(inputs) if column.is_after_event}

    def known(self, converted: Converted) -> Converted:
        """Drops converted rows without a user or an item."""
        is_known = keys_of(converted.batch, self._negatives, self._event_time).is_known
        is_left_out = np.zeros(converted.rows.max(initial=-1) + 1, bool)
        is_left_out[converted.rows[~is_known]] = True
        return without(converted, {f"no {self._negatives.user} or {self._negatives.item}": is_left_out})

    def pairs(self, batch: pa.RecordBatch) -> Mapping[str, int]:
        """Counts pairs of rows of one item, to find columns of the item that are not declared."""
        declared = {*self._negatives.read, *self._negatives.created, self._event_time, *self._after_event}
        others = [name for name in batch.schema.names if name not in declared]
        return count_pairs(batch, keys_of(batch, self._negatives, self._event_time), others)

    def add(self, batch: pa.RecordBatch) -> Iterator[WithSampled]:
        """Yields the rows, which have a user and an item, with their sampled rows."""
        at_once = max(1, _ROWS_AT_ONCE // (1 + self._numbers.wanted))
        for start in range(0, batch.num_rows, at_once):
            part = batch.slice(start, at_once)
            keys = keys_of(part, self._negatives, self._event_time)
            yield self._add(part, keys, identities(keys, self._negatives.seed, self._day))

    def _add(self, batch: pa.RecordBatch, keys: RowKeys, ids: Hashes) -> WithSampled:
        drawn = self._draw(keys, ids, self._numbers)
        rows = np.concatenate([np.arange(batch.num_rows), drawn.rows])
        order = np.argsort(rows, kind="stable")
        is_sampled = order >= batch.num_rows
        arrays = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._negatives.of_item:
                sampled = self._catalog.values(name).take(pa.array(drawn.places))
                arrays.append(pa.concat_arrays([array, sampled]).take(pa.array(order)))
            elif name == self._negatives.label:
                arrays.append(_lists(1 - is_sampled.astype(np.int64)))
            elif name == self._negatives.list_column:
                arrays.append(_lists((ids >> np.uint64(1)).astype(np.int64)[rows[order]]))
            else:
                is_null = is_sampled if name in self._other_labels else None
                arrays.append(array.take(pa.array(rows[order], mask=is_null)))
        return WithSampled(pa.RecordBatch.from_arrays(arrays, batch.schema.names), batch.num_rows, drawn.num_without)


def _lists(numbers: Ints) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(len(numbers) + 1), pa.int32()), pa.array(numbers))
