"""The whole state of training as arrays: what a checkpoint holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class RowsSnapshot:
    """One rank's rows of one group of tables.

    Attributes:
        keys: [n] int64, in no particular order.
        rows: [n, width] float32, `[embedding | slots | bookkeeping]`; the bookkeeping is int32 bits.
        extra: what belongs to the rank rather than to a row: counters of statistics (`count_...`) and of admission
            (`sketch_...`), and, where changes are tracked, the log (`keys_...`, `sum_...`) since the last export.
    """

    keys: NDArray[Any]
    rows: NDArray[Any]
    extra: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """What one rank holds.

    Attributes:
        step: steps done.
        dense: `weights/<name>` and, for each moment of the optimizer, `<moment>/<name>`; equal on all ranks.
        groups: this rank's rows by group.
        extra: the rest; equal on all ranks.
    """

    step: int
    dense: Arrays
    groups: dict[str, RowsSnapshot]
    extra: Arrays


def merged_extra(parts: Sequence[Mapping[str, NDArray[Any]]], rank: int) -> Arrays:
    """Returns a rank's `RowsSnapshot.extra` after the number of ranks has changed.

    Counters of statistics add up and go to rank 0. Sketches and other sums add up too and go to every rank: each key
    was counted on one rank alone, so the sum still never tells less than its count. Every rank gets all keys and picks
    its own.
    """
    merged: Arrays = {}
    for name in sorted(set().union(*parts)):
        if name.startswith("keys_"):
            merged[name] = np.concatenate([part[name] for part in parts if name in part])
            continue
        total = np.sum([part[name] for part in parts if name in part], axis=0, dtype=parts[0][name].dtype)
        merged[name] = total if rank == 0 or name.startswith(("sketch_", "sum_")) else np.zeros_like(total)
    return merged
