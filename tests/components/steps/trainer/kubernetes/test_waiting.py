"""Stopping tasks for sure."""

import asyncio

from sangam.components.steps.trainer.kubernetes.waiting import stopped


def test_a_task_that_forgets_a_cancellation_is_stopped_all_the_same() -> None:
    async def forgets_once() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    async def main() -> bool:
        task = asyncio.create_task(forgets_once())
        await asyncio.sleep(0)
        await stopped([task])
        return task.cancelled()

    assert asyncio.run(asyncio.wait_for(main(), 10))
