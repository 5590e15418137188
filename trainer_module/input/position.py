"""How far the input has been trained on, as a checkpoint holds it."""

from schemas.spec.base import FrozenModel


class Position(FrozenModel):
    """Equal on all ranks. With a pool, each rank adds the batches it was given.

    Attributes:
        epoch: from 0; equal to the number of epochs when training is done.
        examples: of this epoch, over all ranks.
        parts: into which the pool has cut the files; 0 without a pool.
    """

    epoch: int = 0
    examples: int = 0
    parts: int = 0
