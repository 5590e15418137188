"""The rows of one group of tables in a checkpoint, for the export."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.derived.groups import Group
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.manifest import Manifest
from sangam.trainer_module.checkpoint.restore import read_keys, read_row_blocks

_ROWS_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class TrainedRows:
    """Keys and embeddings of a group.

    Attributes:
        keys: [n] int64, each once, in no particular order.
        blocks: reads the embeddings, in the order of the keys: each block is [up to some thousands, dim] float32 and
            overwrites the one before it.
    """

    keys: NDArray[Any]
    blocks: Callable[[], Iterator[NDArray[Any]]]

    def parts(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yields the positions of a block's keys, and the block."""
        start = 0
        for block in self.blocks():
            yield slice(start, start + len(block)), block
            start += len(block)


def read_trained(checkpoint: Path, manifest: Manifest, group: Group) -> TrainedRows:
    """Returns a group's rows of all ranks, without slots and bookkeeping.

    Raises:
        CheckpointError: when a file is damaged or a key has two owners.
    """
    keys = read_keys(checkpoint, manifest, group.name)
    in_order = np.sort(keys)
    if np.any(in_order[1:] == in_order[:-1]):
        raise CheckpointError(
            f"{checkpoint}: a key of {group.name} has two owners; train from scratch with training.mode: full"
        )

    def blocks() -> Iterator[NDArray[Any]]:
        for rows in read_row_blocks(checkpoint, manifest, group.name, _ROWS_AT_ONCE):
            yield rows[:, : group.dim]

    return TrainedRows(keys, blocks)
