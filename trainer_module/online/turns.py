"""The next actions of all ranks, decided by rank 0."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sangam.trainer_module import collectives

NOTHING, ROWS, DENSE = 0, 1, 2
"""Values of `Turn.publish`: no delta; the changed rows; these and the dense weights."""


class Turn(NamedTuple):
    """One turn: first train, then publish, then write checkpoints.

    Attributes:
        segment: number of the segment to train on; 0: none has arrived.
        publish: content of the delta: `NOTHING`, `ROWS` or `DENSE`.
        save: whether to write a checkpoint.
        full: whether to write a checkpoint for a full version; after a delta with the dense weights.
        stop: whether this is the last turn.
    """

    segment: int = 0
    publish: int = NOTHING
    save: bool = False
    full: bool = False
    stop: bool = False


def agreed(turn: Turn | None) -> Turn:
    """Returns rank 0's turn on every rank; other ranks pass None. All ranks together."""
    own = np.array(turn or Turn(), np.int64)
    segment, publish, save, full, stop = collectives.allreduce_max(tf.constant(own), name="turn").numpy().tolist()
    return Turn(segment, publish, bool(save), bool(full), bool(stop))
