"""Waiting with a limit, such that a cancellation is never lost."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Answer = TypeVar("Answer")


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
