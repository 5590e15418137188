"""The whole state of training as arrays: the content of a checkpoint."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

WEIGHTS, AVERAGE = "weights", "average"
"""Names of the dense weights, and of their average over steps, in a checkpoint; other names are moments."""
Arrays = dict[str, NDArray[Any]]
KeysAndRows = tuple[NDArray[Any], NDArray[Any]]

_Rows = TypeVar("_Rows")
_ROWS_AT_ONCE = 1 << 18


class HeldRows(Protocol):
    """One rank's rows of one group of tables, as they were at one moment, in no particular order."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    @property
    def width(self) -> int:
        """Floats of a row."""

    @property
    def extra(self) -> Arrays:
        """See `RowsSnapshot`."""

    def take_keys(self, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Returns keys by index, written at the start of `out`: [n] int64 to [n] int64."""

    def take_rows(self, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Returns rows by index, written at the start of `out`: [n] int64 to [n, width] float32."""

    def end(self) -> None:
        """Gives back what they hold; they are not read again."""


@dataclass(frozen=True)
class RowsSnapshot:
    """One rank's rows of one group of tables.

    Attributes:
        keys: [n] int64, in no particular order.
        rows: [n, width] float32, `[embedding | slots | bookkeeping]`; the bookkeeping is int32 bits.
        extra: state of the rank, not of a row: counters of statistics (`count_...`) and of admission (`sketch_...`),
            and, if changes are tracked, the log (`keys_...`, `sum_...`) since the last export.
    """

    keys: NDArray[Any]
    rows: NDArray[Any]
    extra: Arrays = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.keys)

    @property
    def width(self) -> int:
        """Floats of a row."""
        return int(self.rows.shape[1])

    def take_keys(self, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """See `HeldRows`."""
        return _taken(self.keys, indices, out)

    def take_rows(self, indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """See `HeldRows`."""
        return _taken(self.rows, indices, out)

    def end(self) -> None:
        """See `HeldRows`: the copy lasts as long as this."""

    @property
    def blocks(self) -> Iterator[KeysAndRows]:
        """Keys and rows in blocks."""
        for start in range(0, len(self.keys), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            yield self.keys[part], self.rows[part]


def _taken(array: NDArray[Any], indices: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    # Without bounds checks it writes into `out`: four times as fast as indexing.
    taken: NDArray[Any] = np.take(array, indices, axis=0, out=out[: len(indices)], mode="clip")
    return taken


@dataclass(frozen=True)
class _State(Generic[_Rows]):
    """The state of one rank.

    Attributes:
        step: number of steps done.
        dense: `weights/<name>` and, for each moment of the optimizer, `<moment>/<name>`; `average/<name>` if they are
            averaged; equal on all ranks.
        groups: this rank's rows by group.
        extra: all other state; equal on all ranks.
    """

    step: int
    dense: Arrays
    groups: Mapping[str, _Rows]
    extra: Arrays


class Snapshot(_State[RowsSnapshot]):
    """The state of one rank, copied."""


class StateAtCut(_State[HeldRows]):
    """The state of one rank at one moment, read while training continues."""

    def end(self) -> None:
        """Gives back what the rows hold; they are not read again."""
        for rows in self.groups.values():
            rows.end()


@dataclass(frozen=True)
class RowsOnDisk:
    """A rank's rows of a group in a checkpoint, read on demand, so that memory holds only one copy.

    Attributes:
        num_rows: number of rows.
        read_blocks: reads keys and rows as in `RowsSnapshot`, in blocks; each may overwrite the previous one.
        read_extra: reads `RowsSnapshot.extra`.
    """

    num_rows: int
    read_blocks: Callable[[], Iterator[KeysAndRows]]
    read_extra: Callable[[], Arrays]

    @property
    def blocks(self) -> Iterator[KeysAndRows]:
        """Keys and rows in blocks; read again on each call."""
        return self.read_blocks()

    @property
    def extra(self) -> Arrays:
        """As in `RowsSnapshot`; read again on each call."""
        return self.read_extra()


class StoredSnapshot(_State[RowsOnDisk]):
    """A snapshot whose rows are still on disk."""


def merged_extra(so_far: Arrays, part: Arrays, *, is_heir: bool) -> Arrays:
    """Merges old ranks' `RowsSnapshot.extra`, one after another, after the number of ranks has changed.

    Sketches and other sums add up: each key was counted on only one old rank, so the sum is at least its count. Keys
    are concatenated; the rank selects its own.

    Args:
        so_far: merged before; may be empty.
        part: an old rank's part.
        is_heir: whether this rank takes over the old one's counters; exactly one rank must.
    """
    merged = dict(so_far)
    for name, array in part.items():
        is_counter = name.startswith("count_")
        taken = np.zeros_like(array) if is_counter and not is_heir else array
        if name not in merged:
            merged[name] = taken
        elif name.startswith("keys_"):
            merged[name] = np.concatenate([merged[name], taken])
        else:
            merged[name] = merged[name] + taken
    return merged
