"""Keys of rows removed since the last export, up to a bound."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_KEYS = 1 << 20
"""8 MB a group and rank. A reader that is further behind is better served by all rows."""


class RemovedKeys:
    """Remembers removed keys; past its bound it forgets them, and the next export must be a full one.

    Attributes:
        are_lost: there were too many, or the log has a gap.
    """

    def __init__(self, most: int = MOST_KEYS):
        self._most = most
        self.clear()

    def clear(self) -> None:
        """Forgets all keys, after an export."""
        self.are_lost = False
        self._parts: list[NDArray[Any]] = []
        self._num = 0

    def lose(self) -> None:
        """Marks the log as incomplete."""
        self.clear()
        self.are_lost = True

    def add(self, keys: NDArray[Any]) -> None:
        """Remembers more keys: [n] int64, repeats allowed."""
        if self.are_lost or not len(keys):
            return
        self._parts.append(keys)
        self._num += len(keys)
        if self._num > self._most:
            self._parts = [self.keys()]
            self._num = len(self._parts[0])
            if self._num > self._most:
                self.lose()

    def keys(self) -> NDArray[Any]:
        """Returns each key once, ascending: [n] int64."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self._parts]))
