"""Files with the arrays of a delta; see `sangam.schemas.contracts.deltas`."""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.contracts import deltas
from sangam.schemas.host.files import write_whole

if TYPE_CHECKING:  # TensorFlow is not needed to read a delta.
    from sangam.trainer_module.embedding.delta import Delta


def write_rows(path: Path, group: str, part: int, delta: "Delta") -> None:
    """Writes one rank's changes of a group.

    Args:
        path: folder of a delta that was begun.
        group: the group of tables.
        part: the rank.
        delta: its changes.
    """
    for what, array in (("keys", delta.keys), ("rows", delta.embeddings), ("removed", delta.removed)):
        if len(array):
            _write(path / deltas.rows_file(group, part, what), array)


def write_dense(path: Path, flat: NDArray[Any]) -> None:
    """Writes the dense weights: [size] float32."""
    _write(path / deltas.DENSE_FILE, flat)


def arrays(versions: Path, delta: deltas.Delta, group: str, what: str) -> Iterator[NDArray[Any]]:
    """Yields every rank's `keys`, `rows` or `removed` of a group.

    Raises:
        ValueError: a file differs from the published one, or is not an array.
    """
    path = deltas.path_of(versions, delta.lineage, delta.number)
    for name in deltas.files_of(delta, group, what):
        content = (path / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != delta.files[name].sha256:
            raise ValueError(f"{path / name}: differs from {deltas.DELTA_FILE} (got another sha256)")
        try:
            array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
        except Exception as error:  # NumPy raises what Python's parser raises of a header, and MemoryError.
            raise ValueError(f"{path / name}: is not an array (got {type(error).__name__}: {error})") from error
        yield array


def _write(file: Path, array: NDArray[Any]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_whole(file, buffer.getvalue())
