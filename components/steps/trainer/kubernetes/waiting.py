"""Waits for and stops tasks without losing a cancellation."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

Answer = TypeVar("Answer")
_CANCEL_AGAIN_S = 0.2


async def within(awaited: Awaitable[Answer], seconds: float) -> Answer:
    """Awaits with a timeout.

    Before Python 3.12, asyncio.wait_for loses a cancellation that coincides with the result, and a step would not stop.

    Raises:
        asyncio.TimeoutError: after `seconds`; the task is canceled.
    """
    task = asyncio.ensure_future(awaited)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise TimeoutError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def stopped(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancels tasks until they have ended: anyio loses a cancellation that comes while it opens a connection."""
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_CANCEL_AGAIN_S)
