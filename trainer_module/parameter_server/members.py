"""Which ranks take part: those that have left, and those that wait to take their places. On the first server.

A rank is here for as long as its process holds a call open. Those that take part meet without one that has left; its
replacement takes part from the next generation on, which begins where all are at one checkpoint.
"""

import threading
import time
from collections.abc import Callable

LEADER = 0
"""The rank that cannot be replaced: it loads, saves and reports for all."""
GRACE_S = 3.0
"""A call that breaks off may be opened again for so long: a connection is lost more often than a process."""


class Members:
    """The ranks of an attempt.

    Attributes:
        generation: counts the times that ranks were taken in.
    """

    def __init__(self, ranks: int, *, may_leave: bool, clock: Callable[[], float] = time.monotonic):
        """Expects all ranks.

        Args:
            ranks: how many.
            may_leave: the others go on when one has left; otherwise they wait, and the launcher ends them.
            clock: in seconds.
        """
        self._may_leave, self._clock = may_leave, clock
        self._changed = threading.Condition()
        self.generation = 0
        self._here: dict[int, int | None] = dict.fromkeys(range(ranks))  # Process by rank; None: it has not come yet.
        self._waiting: list[tuple[int, int]] = []  # Rank and process, in the order of their arrival.
        self._broken: dict[tuple[int, int], float] = {}

    def arrive(self, rank: int, process: int) -> None:
        """Notes that a process is here as a rank, for the first time or again."""
        with self._changed:
            self._broken.pop((rank, process), None)
            if self._here.get(rank, process) is None:
                self._here[rank] = process
            elif self._here.get(rank) != process and (rank, process) not in self._waiting:
                self._waiting.append((rank, process))
            self._changed.notify_all()

    def takes_part(self, rank: int, process: int, *, patience_s: float) -> tuple[int, list[int]] | None:
        """Returns the generation in which a process takes part, and the ranks of it; None: not yet, ask again."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._here.get(rank) == process, patience_s):
                return None
            return self.generation, sorted(self._here)

    def break_off(self, rank: int, process: int) -> None:
        """Notes that the call of a process has ended."""
        with self._changed:
            self._broken[rank, process] = self._clock()

    def lost(self) -> list[int]:
        """Returns the ranks that have now been away for too long, each once; they have left."""
        with self._changed:
            ranks = []
            for (rank, process), since in list(self._broken.items()):
                if self._clock() - since < GRACE_S:
                    continue
                del self._broken[rank, process]
                if (rank, process) in self._waiting:
                    self._waiting.remove((rank, process))
                elif self._here.get(rank) == process and rank != LEADER and self._may_leave:
                    del self._here[rank]
                    ranks.append(rank)
            return ranks

    @property
    def here(self) -> set[int]:
        """The ranks that take part."""
        with self._changed:
            return set(self._here)

    @property
    def can_take_in(self) -> bool:
        """Whether a process waits for a place that is free."""
        with self._changed:
            return any(rank not in self._here for rank, _ in self._waiting)

    def take_in(self, generation: int) -> tuple[int, list[int]]:
        """Begins the generation after this one with those that wait, once; returns its number and its ranks."""
        with self._changed:
            if generation == self.generation:
                taken_in = {rank: process for rank, process in self._waiting if rank not in self._here}
                self._here.update(taken_in)
                self._waiting = [each for each in self._waiting if each not in taken_in.items()]
                self.generation += 1
                self._changed.notify_all()
            return self.generation, sorted(self._here)
