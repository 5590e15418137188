"""Waiting and stopping, such that a cancellation is never lost."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

Answer = TypeVar("Answer")
_CANCEL_AGAIN_S = 0.2


async def within(awaited: Awaitable[Answer], seconds: float) -> Answer:
    """Returns what is awaited.

    Not asyncio.wait_for: before Python 3.12 that one forgets a cancellation which comes together with the answer, and a
    step that was told to stop would go on.

    Raises:
        asyncio.TimeoutError: it takes longer; it is cancelled then.
    """
    task = asyncio.ensure_future(awaited)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise asyncio.TimeoutError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def stopped(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancels tasks until they have ended: anyio forgets a cancellation that comes while it opens a connection."""
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_CANCEL_AGAIN_S)
