"""Where the ranks meet: sums over all that take part, each under a name and in rounds."""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainer_module.parameter_server.wire import MessageError

Operation = Literal["sum", "max", "rows"]
OPERATIONS: tuple[Operation, ...] = ("sum", "max", "rows")
"""Element by element over equal shapes; `rows`: one rank's after the other's."""


@dataclass
class _Round:
    parts: dict[int, NDArray[Any]] = field(default_factory=dict)
    operation: Operation = "sum"
    result: "Met | None" = None


@dataclass(frozen=True)
class Met:
    """What a round has led to.

    Attributes:
        result: of the operation.
        ranks: that took part.
    """

    result: NDArray[Any]
    ranks: frozenset[int]


class Meetings:
    """Rounds under way. A rank that sends its part again waits for the same result."""

    def __init__(self, ranks: int):
        """Takes how many ranks meet."""
        self._here, self._generation = set(range(ranks)), 0
        self._changed = threading.Condition()
        self._rounds: dict[tuple[int, str], dict[int, _Round]] = {}

    def leave(self, rank: int) -> None:
        """Waits for a rank no longer; what it has sent counts."""
        with self._changed:
            self._here.discard(rank)
            for rounds in self._rounds.values():
                for meeting in rounds.values():
                    self._complete(meeting)

    def begin_generation(self, generation: int, ranks: Collection[int]) -> None:
        """Begins all rounds at 0 again, with other ranks; results of the generation before can still be had."""
        with self._changed:
            self._here, self._generation = set(ranks), generation
            self._rounds = {key: rounds for key, rounds in self._rounds.items() if key[0] == generation - 1}

    def meet(
        self,
        name: str,
        number: int,
        rank: int,
        operation: Operation,
        part: NDArray[Any],
        *,
        patience_s: float,
        generation: int = 0,
    ) -> Met | None:
        """Returns the result of a round once all ranks have sent their parts; None where that takes too long.

        Sums are in the order of the ranks: every rank gets the same bits.

        Args:
            name: each has one round under way at a time.
            number: of the round, from 0.
            rank: that calls.
            operation: the same on all ranks.
            part: of this rank; kept, not copied.
            patience_s: how long to wait.
            generation: of the ranks.

        Raises:
            MessageError: the ranks' parts do not fit each other, or the rank does not take part.
        """
        given_up = time.monotonic() + patience_s
        with self._changed:
            rounds = self._rounds.setdefault((generation, name), {})
            # Who begins a round has the result of the one before it: two back, all have.
            for old in [each for each in rounds if each < number - 1]:
                del rounds[old]
            meeting = rounds.setdefault(number, _Round())
            if meeting.result is None and rank not in meeting.parts:
                if generation != self._generation or rank not in self._here:
                    raise MessageError(f"a rank that does not take part (got rank {rank} of generation {generation})")
                meeting.parts[rank], meeting.operation = part, operation
                self._complete(meeting)
            while meeting.result is None:
                left_s = given_up - time.monotonic()
                if left_s <= 0 or not self._changed.wait(left_s):
                    return meeting.result
            return meeting.result

    def _complete(self, meeting: _Round) -> None:
        parts = meeting.parts
        if parts and self._here <= set(parts):
            result = _result(meeting.operation, [parts[each] for each in sorted(parts)])
            meeting.result = Met(result, frozenset(parts))
            meeting.parts = {}
            self._changed.notify_all()


def _result(operation: Operation, parts: list[NDArray[Any]]) -> NDArray[Any]:
    shapes = {part.shape[1:] if operation == "rows" else part.shape for part in parts}
    kinds = {part.dtype for part in parts}
    if len(shapes) > 1 or len(kinds) > 1:
        raise MessageError(f"the ranks' parts differ (got shapes {sorted(shapes)}, types {sorted(map(str, kinds))})")
    match operation:
        case "rows":
            return np.concatenate(parts)
        case "max":
            return np.maximum.reduce(parts)
        case "sum":
            total = parts[0].copy()
            for part in parts[1:]:
                total += part
            return total
