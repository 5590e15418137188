"""Reads one rank's state from a checkpoint of any number of ranks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.trainer_module.checkpoint.blocks import ranks_beside
from sangam.trainer_module.checkpoint.files import read_array, read_blocks
from sangam.trainer_module.checkpoint.manifest import (
    Manifest,
    batches_file,
    dense_file,
    extra_file,
    record_of,
    rows_file,
)
from sangam.trainer_module.checkpoint.rows import BLOCKS, KEYS, ROWS, OwnRows
from sangam.trainer_module.snapshot import Arrays, RowsOnDisk, StoredSnapshot, merged_extra

_DENSE, _ALL = "dense.", "all."
HISTORY_ARRAY = "history_"
"""Prefix of arrays that belong to the history, not to the snapshot."""


def read_snapshot(directory: Path, manifest: Manifest, *, rank: int, ranks: int) -> StoredSnapshot:
    """Returns a rank's state in a checkpoint; its rows are read only when a store takes them.

    Raises:
        CheckpointError: when a file is missing, truncated or altered.
    """
    return StoredSnapshot(
        step=manifest.step,
        dense=read_dense(directory, manifest),
        groups={name: own_rows(directory, manifest, name, rank=rank, ranks=ranks) for name in manifest.groups},
        extra={name: array for name, array in read_extra(directory, manifest).items() if not _is_history(name)},
    )


def read_history_arrays(directory: Path, manifest: Manifest) -> Arrays:
    """Returns the arrays that were written beside the history."""
    return {name: array for name, array in read_extra(directory, manifest).items() if _is_history(name)}


def _is_history(name: str) -> bool:
    return name.startswith(HISTORY_ARRAY)


def read_dense(directory: Path, manifest: Manifest) -> Arrays:
    """Returns the dense weights and their moments: `<moment>/<name>`."""
    sizes = [int(np.prod(weight.shape)) for weight in manifest.weights]
    dense: Arrays = {}
    for file in sorted(name for name in manifest.files if name.startswith(_DENSE)):
        moment = file[len(_DENSE) : -len(".npy")]
        vector = _read(directory, manifest, dense_file(moment))
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        for weight, part in zip(manifest.weights, parts, strict=True):
            dense[f"{moment}/{weight.name}"] = part.reshape(weight.shape)
    return dense


def read_extra(directory: Path, manifest: Manifest) -> Arrays:
    """Returns the arrays that are equal on all ranks."""
    names = [file[len(_ALL) : -len(".npy")] for file in manifest.files if file.startswith(_ALL)]
    return {name: _read(directory, manifest, extra_file(name)) for name in sorted(names)}


def read_batches(directory: Path, manifest: Manifest) -> NDArray[Any]:
    """Returns the pool's batches that all ranks together had trained on in the epoch: [n, 2] int64."""
    return np.concatenate([_read(directory, manifest, batches_file(part)) for part in range(manifest.ranks)])


def read_keys(directory: Path, manifest: Manifest, group: str) -> NDArray[Any]:
    """Returns all keys of a group, rank after rank: [n] int64."""
    files = [rows_file(part, group, "keys") for part in range(manifest.owners)]
    return np.concatenate([_read(directory, manifest, file) for file in files])


def read_row_blocks(directory: Path, manifest: Manifest, group: str, num_rows: int) -> Iterator[NDArray[Any]]:
    """Yields the rows of `read_keys` in blocks; each overwrites the one before: [up to num_rows, width].

    A row is several times as wide as its embedding: a reader of embeddings need not hold all rows.
    """
    for part in range(manifest.owners):
        file = rows_file(part, group, "rows")
        yield from read_blocks(directory / file, record_of(directory, manifest, file), num_rows)


def own_rows(directory: Path, manifest: Manifest, group: str, *, rank: int, ranks: int) -> RowsOnDisk:
    """Returns the rows of a group that a rank owns, from the files of all ranks."""
    rows = OwnRows(directory, manifest, group, rank=rank, ranks=ranks)
    return RowsOnDisk(
        rows.num_rows, rows.blocks, lambda: extra_of_rank(directory, manifest, group, rank=rank, ranks=ranks)
    )


def extra_of_rank(directory: Path, manifest: Manifest, group: str, *, rank: int, ranks: int) -> Arrays:
    """Returns a rank's `extra` arrays, merged from those of the ranks that wrote rows of it."""
    if ranks == manifest.owners:
        return _read_extra_of(directory, manifest, group, rank)
    merged: Arrays = {}
    for part in ranks_beside(rank, ranks, manifest.owners):
        # One rank alone takes over a rank's counters: they are summed over the ranks later.
        is_heir = part * ranks // manifest.owners == rank
        merged = merged_extra(merged, _read_extra_of(directory, manifest, group, part), is_heir=is_heir)
    return merged


def _read_extra_of(directory: Path, manifest: Manifest, group: str, part: int) -> Arrays:
    prefix = rows_file(part, group, "x")[: -len("x.npy")]
    files = [file for file in manifest.files if file.startswith(prefix)]
    names = {file[len(prefix) : -len(".npy")] for file in files} - {KEYS, ROWS, BLOCKS}
    return {name: _read(directory, manifest, rows_file(part, group, name)) for name in sorted(names)}


def _read(directory: Path, manifest: Manifest, file: str) -> NDArray[Any]:
    return read_array(directory / file, record_of(directory, manifest, file))
