"""Reductions over all ranks, by name and round."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sangam.trainer_module.parameter_server.wire import MessageError

Operation = Literal["sum", "max", "rows"]
OPERATIONS: tuple[Operation, ...] = ("sum", "max", "rows")
"""Elementwise over equal shapes; `rows`: concatenated in rank order."""


@dataclass
class _Round:
    parts: dict[int, NDArray[Any]] = field(default_factory=dict)
    result: NDArray[Any] | None = None


class Meetings:
    """Rounds under way. A rank that sends its part again gets the same result."""

    def __init__(self, ranks: int):
        """Takes the number of ranks."""
        self._ranks = ranks
        self._changed = threading.Condition()
        self._rounds: dict[str, dict[int, _Round]] = {}

    def meet(
        self, name: str, number: int, rank: int, operation: Operation, part: NDArray[Any], *, patience_s: float
    ) -> NDArray[Any] | None:
        """Returns the result of a round once all ranks have sent their parts; None after `patience_s`.

        Sums are in rank order: every rank gets the same bits.

        Args:
            name: name of the reduction; one round of it runs at a time.
            number: number of the round, from 0.
            rank: the calling rank.
            operation: equal on all ranks.
            part: the rank's part; kept, not copied.
            patience_s: seconds to wait.

        Raises:
            MessageError: the ranks' parts do not match.
        """
        given_up = time.monotonic() + patience_s
        with self._changed:
            rounds = self._rounds.setdefault(name, {})
            # A rank begins a round after it has the previous result: all ranks have the one before that.
            for old in [each for each in rounds if each < number - 1]:
                del rounds[old]
            meeting = rounds.setdefault(number, _Round())
            if meeting.result is None and rank not in meeting.parts:
                meeting.parts[rank] = part
                if len(meeting.parts) == self._ranks:
                    meeting.result = _result(operation, [meeting.parts[each] for each in sorted(meeting.parts)])
                    meeting.parts.clear()
                    self._changed.notify_all()
            while meeting.result is None:
                left_s = given_up - time.monotonic()
                if left_s <= 0 or not self._changed.wait(left_s):
                    return meeting.result
            return meeting.result


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
