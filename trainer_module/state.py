"""The trained state on disk: dense weights by name, and every rank's rows."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer_module.dense.weights import FlatWeights

_DENSE = "dense.npz"


def write_dense(state_dir: Path, layout: FlatWeights, flat: NDArray[Any]) -> None:
    """Writes the dense weights: one array a weight."""
    np.savez(state_dir / _DENSE, **layout.by_name(flat))


def read_dense(state_dir: Path, layout: FlatWeights) -> NDArray[Any]:
    """Returns the flat vector of dense weights."""
    with np.load(state_dir / _DENSE) as stored:
        return np.concatenate([stored[weight.name].ravel() for weight in layout.weights])


def write_rows(state_dir: Path, *, dim: int, rank: int, ranks: int, keys: NDArray[Any], rows: NDArray[Any]) -> None:
    """Writes a rank's rows of one dimension: keys [n] int64, whole rows [n, width] float32."""
    np.savez(state_dir / f"rows-{dim}-{rank:05d}-of-{ranks:05d}.npz", keys=keys, rows=rows)


def read_embeddings(state_dir: Path, *, dim: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns all keys of a dimension, sorted, and their embeddings without slots: [n] int64, [n, dim] float32.

    Raises:
        ValueError: when a rank's file is missing or a key has two owners.
    """
    files = sorted(state_dir.glob(f"rows-{dim}-*-of-*.npz"))
    expected = int(files[0].stem.rsplit("-", 1)[1]) if files else 1
    if len(files) != expected:
        raise ValueError(f"{state_dir}: rows of dimension {dim} are not whole (got {len(files)} files of {expected})")
    keys, rows = [], []
    for file in files:
        with np.load(file) as stored:
            keys.append(stored["keys"])
            rows.append(stored["rows"][:, :dim])
    all_keys, all_rows = np.concatenate(keys), np.concatenate(rows)
    order = np.argsort(all_keys)
    all_keys = all_keys[order]
    if np.any(all_keys[1:] == all_keys[:-1]):
        raise ValueError(f"{state_dir}: a key of dimension {dim} has two owners")
    return all_keys, all_rows[order]
