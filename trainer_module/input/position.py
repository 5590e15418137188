"""The position of training in its input, as a checkpoint holds it."""

from sangam.schemas.parts.base import FrozenModel


class Position(FrozenModel):
    """Equal on all ranks. With a pool, each rank adds the batches that it received.

    Attributes:
        epoch: number of the epoch, from 0; equal to the number of epochs after the last.
        examples: examples of this epoch, over all ranks.
        parts: into which the pool has cut the files; 0 without a pool.
    """

    epoch: int = 0
    examples: int = 0
    parts: int = 0
