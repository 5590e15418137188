"""Offers a load: each request is sent at its time, whether or not earlier ones have been answered."""

import asyncio
import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sangam.components.load.signature import Arrays

OK, NOT_SENT, TOO_LATE = "OK", "NOT_SENT", "DEADLINE_EXCEEDED"
"""Codes of requests that were answered, whose deadline passed before this process could send them, and after that."""


class Server(Protocol):
    """An interface of a server."""

    def message(self, arrays: Arrays) -> bytes:
        """Returns a request as it is sent."""

    async def send(self, message: bytes, timeout_s: float) -> str:
        """Sends a request; returns the code of its answer, OK or an error's."""


@dataclass(frozen=True)
class Sent:
    """One request.

    Attributes:
        code: code of its answer.
        seconds: from the time at which it was to be sent to its answer. So a wait in this process counts, and a slow
            server has no fewer requests for it.
        late_s: by how much it was sent late.
    """

    code: str
    seconds: float
    late_s: float


async def offer(server: Server, messages: Sequence[bytes], times: Iterable[float], deadline_s: float) -> list[Sent]:
    """Sends the messages in turn at these times, in seconds from now; returns all when the last one has ended."""
    sent: list[Sent] = []
    start = time.perf_counter()

    async def send(message: bytes, due: float) -> None:
        late_s = time.perf_counter() - due
        left_s = deadline_s - late_s
        code = await server.send(message, left_s) if left_s > 0 else NOT_SENT
        seconds = time.perf_counter() - due
        sent.append(Sent(TOO_LATE if code == OK and seconds > deadline_s else code, seconds, late_s))

    async with asyncio.TaskGroup() as group:
        for at, message in zip(times, itertools.cycle(messages), strict=False):
            due = start + at
            # Also with no time left: answers must be read.
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(send(message, due))
    return sent
