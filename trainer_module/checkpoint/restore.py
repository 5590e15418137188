"""From a checkpoint to one rank's state, whatever the number of ranks that wrote it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer_module.checkpoint.files import CheckpointError, DamagedError, FileRecord, read_array, read_blocks
from trainer_module.checkpoint.manifest import Manifest, batches_file, dense_file, extra_file, rows_file
from trainer_module.embedding.hashing import owner_of
from trainer_module.snapshot import Arrays, RowsSnapshot, Snapshot, merged_extra

_KEYS_AT_ONCE = 1 << 20
_DENSE, _ALL = "dense.", "all."
HISTORY_ARRAY = "history_"
"""Arrays under such a name belong to the history, not to the snapshot."""


def read_snapshot(directory: Path, manifest: Manifest, *, rank: int, ranks: int) -> Snapshot:
    """Returns what a rank holds after a checkpoint.

    Raises:
        CheckpointError: when a file is missing, cut or altered.
    """
    return Snapshot(
        step=manifest.step,
        dense=read_dense(directory, manifest),
        groups={name: _rows_of_rank(directory, manifest, name, rank, ranks) for name in manifest.groups},
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


def read_parts(directory: Path, manifest: Manifest, group: str) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yields the keys and rows of a group, as one rank after another has written them."""
    for part in range(manifest.ranks):
        yield _read_rows(directory, manifest, group, part)


def read_keys(directory: Path, manifest: Manifest, group: str) -> NDArray[Any]:
    """Returns all keys of a group, as one rank after another has written them: [n] int64."""
    files = [rows_file(part, group, "keys") for part in range(manifest.ranks)]
    return np.concatenate([_read(directory, manifest, file) for file in files])


def read_row_blocks(directory: Path, manifest: Manifest, group: str, num_rows: int) -> Iterator[NDArray[Any]]:
    """Yields the rows of `read_keys` in blocks, of which each overwrites the one before: [up to num_rows, width].

    Rows are several times as wide as an embedding; nobody who needs these alone has to hold all of them.
    """
    for part in range(manifest.ranks):
        file = rows_file(part, group, "rows")
        yield from read_blocks(directory / file, _record(directory, manifest, file), num_rows)


def read_extras(directory: Path, manifest: Manifest, group: str) -> list[Arrays]:
    """Returns what each rank has written of a group beside keys and rows."""
    prefixes = [rows_file(part, group, "x")[: -len("x.npy")] for part in range(manifest.ranks)]
    return [
        {
            name: _read(directory, manifest, prefix + name + ".npy")
            for name in (file[len(prefix) : -len(".npy")] for file in manifest.files if file.startswith(prefix))
            if name not in {"keys", "rows"}
        }
        for prefix in prefixes
    ]


def is_owned(keys: NDArray[Any], rank: int, ranks: int) -> NDArray[np.bool_]:
    """Returns which keys a rank owns: [n] int64 to [n]."""
    if ranks == 1:
        return np.ones(len(keys), np.bool_)
    owned = np.empty(len(keys), np.bool_)
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        part = slice(start, start + _KEYS_AT_ONCE)
        owned[part] = owner_of(tf.constant(keys[part]), ranks).numpy() == rank
    return owned


def _rows_of_rank(directory: Path, manifest: Manifest, group: str, rank: int, ranks: int) -> RowsSnapshot:
    extras = read_extras(directory, manifest, group)
    if ranks == manifest.ranks:
        keys, rows = _read_rows(directory, manifest, group, rank)
        if not is_owned(keys, rank, ranks).all():
            raise CheckpointError(
                f"{directory}: rank {rank} holds rows of {group} that it does not own; "
                "written by another version: train anew with mode: full"
            )
        return RowsSnapshot(keys=keys, rows=rows, extra=extras[rank])
    found = []
    for keys, rows in read_parts(directory, manifest, group):
        mine = is_owned(keys, rank, ranks)
        found.append((keys[mine], rows[mine]))
    return RowsSnapshot(
        keys=np.concatenate([keys for keys, _ in found]),
        rows=np.concatenate([rows for _, rows in found]),
        extra=merged_extra(extras, rank),
    )


def _read_rows(directory: Path, manifest: Manifest, group: str, part: int) -> tuple[NDArray[Any], NDArray[Any]]:
    keys = _read(directory, manifest, rows_file(part, group, "keys"))
    return keys, _read(directory, manifest, rows_file(part, group, "rows"))


def _read(directory: Path, manifest: Manifest, file: str) -> NDArray[Any]:
    return read_array(directory / file, _record(directory, manifest, file))


def _record(directory: Path, manifest: Manifest, file: str) -> FileRecord:
    if file not in manifest.files:
        raise DamagedError(f"{directory}: lacks {file}; the checkpoint is damaged: start from another one")
    return manifest.files[file]
