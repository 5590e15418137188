"""Copies the coordinator's log into the step's, across lost connections and replaced pods."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime

import httpx
from lightkube.resources.core_v1 import Pod

from sangam.components.steps.trainer.kubernetes.api import Api
from sangam.components.steps.trainer.kubernetes.trouble import component_of, exit_of
from sangam.components.steps.trainer.kubernetes.waiting import stopped

_LOG = logging.getLogger(__name__)


class CoordinatorLog:
    """Follows every pod of the coordinator from its start to its end."""

    def __init__(self, api: Api):
        self._api = api
        self._pods: Mapping[str, Pod] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def update(self, pods: Mapping[str, Pod]) -> None:
        """Follows pods that have started since the last update.

        Args:
            pods: the current ones by name.
        """
        self._pods = pods
        for name, pod in self._pods.items():
            has_started = pod.status is not None and pod.status.phase in ("Running", "Succeeded", "Failed")
            if name not in self._tasks and component_of(pod) == "coordinator" and has_started:
                self._tasks[name] = asyncio.create_task(self._follow(name))

    async def close(self, grace_s: float) -> None:
        """Reads the rest of the logs of ended pods, for at most `grace_s`."""
        last = [task for name, task in self._tasks.items() if self._is_over(name)]
        if last and grace_s:
            await asyncio.wait(last, timeout=grace_s)
        await stopped(self._tasks.values())

    def _is_over(self, name: str) -> bool:
        pod = self._pods.get(name)
        return pod is None or exit_of(pod) is not None

    async def _follow(self, name: str) -> None:
        last = ""
        while True:
            # Before reading the log: once the container has ended, one more reading gets all of it.
            is_over = self._is_over(name)
            try:
                async for time, line in self._lines(name, last):
                    last = time
                    _LOG.info("coordinator: %s", line)
            except (httpx.HTTPError, RuntimeError) as error:
                # When lightkube reads the body of a refused stream, httpx raises a RuntimeError.
                _LOG.debug("event=log_lost pod=%s error=%r", name, error)
            if is_over:
                return
            await asyncio.sleep(self._api.timing.backoff_s)

    async def _lines(self, name: str, after: str) -> AsyncIterator[tuple[str, str]]:
        """Yields time and text of the lines after the time `after`."""
        since = None
        if after:
            # The server counts back in whole seconds; repeated lines are left out below.
            since = int((datetime.now(UTC) - _time(after)).total_seconds()) + 2
        lines = self._api.client.log(name, follow=True, since=since, timestamps=True, newlines=False)
        async for line in lines:
            time, _, text = line.partition(" ")
            if time > after:
                yield time, text


def _time(text: str) -> datetime:
    # Python does not parse nanoseconds.
    return datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
