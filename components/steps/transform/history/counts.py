"""The counts of a day by id: its examples, and the sums of their labels."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.examples.reading import large_batches
from sangam.components.steps.transform.history.keys import KeysFn, keys_of
from sangam.schemas.derived.history import By, counted
from sangam.schemas.spec import Inputs

_KEPT = pa.schema([("keys", pa.large_list(pa.int64())), ("sums", pa.large_list(pa.float64()))])
"""Schema of a day's stored counts, one group of id columns in each row."""
_MOST_PARTS = 64

# Shape suffixes: n keys; R rows of a batch; S sums: examples, then examples and labels of each task.


@dataclass(frozen=True)
class Counts:
    """Sums by key.

    Attributes:
        keys_n: int64, ascending, each once; `NO_ID`, 0, stands for rows without an id.
        sums_nS: float64, in which whole numbers up to 2^53 are exact: the number of examples; then for each task, the
            number of its examples, and the sum of their labels.
    """

    keys_n: NDArray[np.int64]
    sums_nS: NDArray[np.float64]

    def of_keys(self, keys_m: NDArray[np.int64]) -> "Counts":
        """Returns the sums of ascending keys; 0 for unknown ones."""
        if not len(self.keys_n):
            return Counts(keys_m, np.zeros((len(keys_m), self.sums_nS.shape[1])))
        number_m = np.minimum(np.searchsorted(self.keys_n, keys_m), len(self.keys_n) - 1)
        is_known_m = self.keys_n[number_m] == keys_m
        return Counts(keys_m, np.where(is_known_m[:, None], self.sums_nS[number_m], 0.0))

    @property
    def num_bytes(self) -> int:
        """Bytes in memory."""
        return int(self.keys_n.nbytes + self.sums_nS.nbytes)

    def minus(self) -> "Counts":
        """Returns the negated sums, to subtract them from others."""
        return Counts(self.keys_n, -self.sums_nS)


def empty(tasks: int) -> Counts:
    """Returns empty counts."""
    return Counts(np.zeros(0, np.int64), np.zeros((0, 1 + 2 * tasks)))


def summed(parts: Sequence[Counts]) -> Counts:
    """Returns the sums of all parts by key; keys without examples are left out."""
    keys_n = np.concatenate([part.keys_n for part in parts])
    # For sorted parts a stable sort only merges, and sums are added in the order of the parts.
    order = np.argsort(keys_n, kind="stable")
    keys_n = keys_n[order]
    starts = np.flatnonzero(np.append(True, keys_n[1:] != keys_n[:-1])) if len(keys_n) else np.zeros(0, np.int64)
    sums_nS = np.concatenate([part.sums_nS for part in parts])[order]
    # reduceat cannot sum empty ranges.
    sums_nS = np.add.reduceat(sums_nS, starts) if len(keys_n) else sums_nS
    has_examples = sums_nS[:, 0] > 0
    if has_examples.all():
        return Counts(keys_n[starts], sums_nS)
    return Counts(keys_n[starts][has_examples], sums_nS[has_examples])


@dataclass(frozen=True)
class CountDay:
    """Counts files of raw examples, as an Arrow file.

    Attributes:
        keys_fn: converts columns to keys.
        inputs: inputs of the spec.
    """

    keys_fn: KeysFn
    inputs: Inputs

    def __call__(self, files: Sequence[str]) -> bytes:
        """Reads the files."""
        parts: dict[By, list[Counts]] = {by: [empty(len(tasks))] for by, tasks in counted(self.inputs).items()}
        for batch in large_batches(files):
            for by, counts in self.counts_of(batch).items():
                parts[by].append(counts)
                if len(parts[by]) == _MOST_PARTS:
                    parts[by] = [summed(parts[by])]
        return _written([summed(of_ids) for of_ids in parts.values()])

    def counts_of(self, batch: pa.RecordBatch) -> dict[By, Counts]:
        """Returns the counts of some rows."""
        found, by_ids = {}, counted(self.inputs)
        for (by, tasks), keys_R in zip(by_ids.items(), keys_of(self.keys_fn, list(by_ids), batch), strict=True):
            sums = [np.ones(len(keys_R))]
            for task in tasks:
                label_R = self._labels(batch, task)
                sums += [np.isfinite(label_R).astype(np.float64), np.nan_to_num(label_R)]
            found[by] = summed([Counts(keys_R, np.stack(sums, 1))])
        return found

    def key(self) -> tuple[str, ...]:
        """Returns the dependencies of counts besides the examples and the code."""
        tasks = {
            name: [task.label, task.only_where, task.example_weight] for name, task in sorted(self.inputs.tasks.items())
        }
        return (
            json.dumps([[by, names, [tasks[name] for name in names]] for by, names in counted(self.inputs).items()]),
        )

    def parsed(self, tables: Iterable[pa.Table]) -> dict[By, Counts]:
        """Returns the counts of all parts of a day."""
        parts: dict[By, list[Counts]] = {by: [empty(len(tasks))] for by, tasks in counted(self.inputs).items()}
        for table in tables:
            keys, sums = table.columns
            for number, (by, tasks) in enumerate(counted(self.inputs).items()):
                sums_nS = sums[number].values.to_numpy().reshape(-1, 1 + 2 * len(tasks))
                parts[by].append(Counts(keys[number].values.to_numpy(), sums_nS))
        return {by: summed(of_ids) for by, of_ids in parts.items()}

    def _labels(self, batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
        """Returns a task's label of each row, NaN where the row is not in the task."""
        task = self.inputs.tasks[name]
        label_R = _numbers(batch, self.inputs.label_of(name))
        if task.only_where:
            label_R = np.where(_numbers(batch, task.only_where) == 1, label_R, np.nan)
        if task.example_weight:
            label_R = np.where(np.isnan(_numbers(batch, task.example_weight)), np.nan, label_R)
        return label_R


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
    """Returns the values of a column whose lists have at most one; NaN where it is missing."""
    values = pc.list_element(batch.column(batch.schema.get_field_index(name)), 0)
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _written(all_counts: Sequence[Counts]) -> bytes:
    columns = [
        pa.array([counts.keys_n for counts in all_counts], _KEPT.field("keys").type),
        pa.array([counts.sums_nS.ravel() for counts in all_counts], _KEPT.field("sums").type),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _KEPT, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=_KEPT))
    return bytes(sink.getvalue())
