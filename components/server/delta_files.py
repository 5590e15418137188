"""A delta in memory, checked before any part of it is applied."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError


class NotApplicable(Exception):
    """A delta that cannot be applied; the model stays as it is.

    Attributes:
        reason: one word, for metrics.
    """

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class GroupRows:
    """One process's changes of a group: keys [n] and rows [n, dim], and removed keys [m]."""

    group: str
    keys: NDArray[Any]
    rows: NDArray[Any]
    removed: NDArray[Any]


@dataclass(frozen=True)
class ReadDelta:
    """A delta with verified files.

    Attributes:
        delta: description of the delta.
        sha256: SHA-256 of the delta's file; the next delta names it.
        changes: changes of rows.
        dense: new dense weights, [size]; None: unchanged.
    """

    delta: deltas.Delta
    sha256: str
    changes: tuple[GroupRows, ...]
    dense: NDArray[Any] | None


def read_delta(versions: Path, place: deltas.Lineage, dims: Mapping[str, int]) -> ReadDelta:
    """Reads the delta after a place.

    Args:
        versions: folder of versions.
        place: position of the model in its lineage.
        dims: dimensions of the model's groups of tables, by name.

    Raises:
        NotApplicable: the delta is damaged, or was made for another state of the model.
    """
    number = place.number + 1
    path = deltas.path_of(versions, place.lineage, number)
    try:
        sha256 = deltas.sha256_at(versions, place.lineage, number)
        delta = deltas.read(versions, place.lineage, number)
    except (OSError, UserError) as error:
        raise NotApplicable("damaged", str(error)) from error
    if (delta.lineage, delta.number, delta.previous) != (place.lineage, number, place.sha256):
        raise NotApplicable(
            "foreign",
            f"{path}: does not follow what is served (got delta {delta.number} of {delta.lineage} after "
            f"{delta.previous[:12]}; {number} of {place.lineage} after {place.sha256[:12]} is next)",
        )
    if not delta.is_whole:
        raise NotApplicable(
            "not_whole",
            f"{path}: lacks changes (got more removed rows than the online training remembers); the full version that "
            "follows it includes them",
        )
    if foreign := sorted(delta.groups.keys() - dims.keys()):
        raise NotApplicable("foreign", f"{path}: has groups of tables that the model lacks (got {', '.join(foreign)})")
    arrays = {name: _array(path, name, record) for name, record in delta.files.items()}
    changes = []
    for group in delta.groups:
        parts = {name.split(".")[1] for name in arrays if name.startswith(f"{group}.")}
        changes += [_change(path, arrays, group, part, dims[group]) for part in sorted(parts)]
    dense = arrays.get(deltas.DENSE_FILE)
    if delta.dense != (dense is not None):
        raise NotApplicable("damaged", f"{path}: {deltas.DENSE_FILE} and {deltas.DELTA_FILE} disagree on dense weights")
    if dense is not None and not (dense.ndim == 1 and dense.dtype == np.float32 and np.isfinite(dense).all()):
        raise NotApplicable("damaged", f"{path / deltas.DENSE_FILE}: is not a vector of finite float32")
    return ReadDelta(delta, sha256, tuple(changes), dense)


def _array(path: Path, name: str, record: Any) -> NDArray[Any]:
    file = path / name
    if file.name != name or file.suffix != ".npy":
        raise NotApplicable("damaged", f"{path}: names a file that does not belong to a delta (got {name!r})")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise NotApplicable("damaged", f"{file}: cannot be read (got {error.strerror})") from error
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise NotApplicable("damaged", f"{file}: differs from {deltas.DELTA_FILE} (got another sha256)")
    try:
        array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # NumPy evaluates the header: it raises what Python's parser raises, and MemoryError.
        raise NotApplicable("damaged", f"{file}: is not an array (got {type(error).__name__}: {error})") from error
    return array


def _change(path: Path, arrays: Mapping[str, NDArray[Any]], group: str, part: str, dim: int) -> GroupRows:
    def of(what: str, empty: NDArray[Any]) -> NDArray[Any]:
        return arrays.get(f"{group}.{part}.{what}.npy", empty)

    no_keys: NDArray[Any] = np.zeros(0, np.int64)
    keys, removed = of("keys", no_keys), of("removed", no_keys)
    rows = of("rows", np.zeros([0, dim], np.float32))
    fits = keys.ndim == removed.ndim == 1 and keys.dtype == removed.dtype == np.int64
    if not fits or rows.shape != (len(keys), dim) or rows.dtype != np.float32:
        shapes = f"keys {keys.shape} {keys.dtype}, rows {rows.shape} {rows.dtype}, removed {removed.shape}"
        raise NotApplicable("foreign", f"{path}: rows of {group} do not fit {dim} floats a row (got {shapes})")
    if not np.isfinite(rows).all() or len(np.unique(keys)) != len(keys):
        raise NotApplicable("damaged", f"{path}: rows of {group} are not finite, or a key occurs twice")
    return GroupRows(group, keys, rows, removed)
