"""The rows of a store at one moment, read by another thread while training changes them: see `native/cuts.cc`.

Memory holds only the rows that have changed since, once more.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.derived.groups import BOOK_FLOATS
from sangam.trainer_module.native.library import functions, operations
from sangam.trainer_module.snapshot import Arrays


@dataclass(frozen=True)
class RowsAtCut:
    """One rank's rows of one group of tables; see `snapshot.HeldRows`.

    Attributes:
        number: number of the cut.
        num_rows: number of rows.
        width: floats of a row.
        extra: as in `RowsSnapshot`, copied.
    """

    number: int
    num_rows: int
    width: int
    extra: Arrays

    @property
    def num_kept(self) -> int:
        """Number of rows that have changed since; -1 once the cut has ended."""
        return kept_by(self.number)

    def take_keys(self, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """See `snapshot.HeldRows`."""
        return self._take(functions().sangam_keys_of_cut, indices, out[: len(indices)])

    def take_rows(self, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """See `snapshot.HeldRows`."""
        return self._take(functions().sangam_rows_of_cut, indices, out[: len(indices)])

    def _take(self, read: Any, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        numbers = np.ascontiguousarray(indices, np.int64)
        assert out.flags.c_contiguous
        where = ctypes.c_void_p(numbers.ctypes.data), ctypes.c_int64(len(numbers)), ctypes.c_void_p(out.ctypes.data)
        if read(ctypes.c_int64(self.number), *where):  # Without the interpreter's lock.
            raise ValueError(f"cut {self.number}: has ended, or has no such rows (it had {self.num_rows})")
        return out

    def end(self) -> None:
        """See `snapshot.HeldRows`."""
        functions().sangam_end_cut(ctypes.c_int64(self.number))


def kept_by(number: int) -> int:
    """Returns how many rows a cut has kept; -1 for none under way."""
    kept = functions().sangam_kept_by_cut
    kept.restype = ctypes.c_int64
    return int(kept(ctypes.c_int64(number)))


def begin(rows: tf.Variable, books: tf.Variable | None, keys: tf.Variable, end: int) -> int:
    """Begins a cut through variables of the host, and returns its number; no row is copied.

    Until it ends, `keep` must precede each change of a row, and nothing may read the variables' values.

    Args:
        rows: [any, floats] float32.
        books: [any, 2] int32; None for rows without them.
        keys: [any] int64.
        end: end of the part in use.
    """
    handle, count = (keys.handle, 0) if books is None else (books.handle, BOOK_FLOATS)
    return int(operations().sangam_begin_cut(rows.handle, handle, keys.handle, tf.constant(end, tf.int64), BOOKS=count))


def keep(rows: tf.Variable, cut: tf.Variable, numbers: tf.Tensor) -> tf.Operation:
    """Keeps rows that are about to change, with keys and books, for a cut that may have ended: [n] int64."""
    return operations().sangam_keep_rows(rows.handle, cut.read_value(), numbers)
