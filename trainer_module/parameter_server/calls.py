"""What ranks and servers agree on: methods, connections by kind of call, and how a call ends."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

METHODS = (
    *("pull", "push", "meet", "exchange"),
    *("read", "load", "begin", "save", "evict", "dense", "account", "statistics"),
)
HELLO = len(METHODS)
"""Kind of the first message of a connection; its sequence number is the connection's lane."""
OTHERS = 4
NUM_LANES = OTHERS + 1


def lane_of(method: str) -> int:
    """Returns the number of a rank's connection for a method: the first four have one each, which others never hold up.

    >>> [lane_of(method) for method in ("pull", "push", "meet", "exchange", "read", "load")]
    [0, 1, 2, 3, 4, 4]
    """
    return min(METHODS.index(method), OTHERS)


class Status(IntEnum):
    """The kind of an answer.

    All but the first two have the reason as text.
    """

    DONE = 0
    UNDER_WAY = 1
    """The answer follows."""
    REFUSED = 2
    """An invalid call."""
    DAMAGED = 3
    """A file of the checkpoint is damaged."""
    UNFIT = 4
    """The checkpoint, or the spec, does not fit."""
    FAILED = 5


def text_array(text: str) -> NDArray[np.uint8]:
    """Returns a text as an array."""
    return np.frombuffer(text.encode(), np.uint8)
