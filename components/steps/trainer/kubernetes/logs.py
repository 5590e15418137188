"""The coordinator's log, line by line into the step's own, over lost connections and replaced pods."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timezone

import httpx
from lightkube.resources.core_v1 import Pod

from components.steps.trainer.kubernetes.api import Api
from components.steps.trainer.kubernetes.trouble import component_of, exit_of
from components.steps.trainer.kubernetes.waiting import stopped

_LOG = logging.getLogger(__name__)


class CoordinatorLog:
    """Follows every pod of the coordinator from its start to its end."""

    def __init__(self, api: Api):
        self._api = api
        self._pods: Mapping[str, Pod] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def look(self, pods: Mapping[str, Pod]) -> None:
        """Starts to follow pods that have started since.

        Args:
            pods: by name, that are there now.
        """
        self._pods = pods
        for name, pod in self._pods.items():
            has_started = pod.status is not None and pod.status.phase in ("Running", "Succeeded", "Failed")
            if name not in self._tasks and component_of(pod) == "coordinator" and has_started:
                self._tasks[name] = asyncio.create_task(self._follow(name))

    async def close(self, grace_s: float) -> None:
        """Takes in what pods that have ended have left, for a while at most."""
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
            # Looked at before the log is read: of a container that has ended, one more reading gives all.
            is_over = self._is_over(name)
            try:
                async for time, line in self._lines(name, last):
                    last = time
                    _LOG.info("coordinator: %s", line)
            except (httpx.HTTPError, RuntimeError) as error:
                # lightkube reads the body of a refused stream in a way that httpx refuses: a RuntimeError.
                _LOG.debug("event=log_lost pod=%s error=%r", name, error)
            if is_over:
                return
            await asyncio.sleep(self._api.timing.backoff_s)

    async def _lines(self, name: str, after: str) -> AsyncIterator[tuple[str, str]]:
        """Yields time and text of the lines after a time."""
        since = None
        if after:
            # The server counts whole seconds back; what comes twice by that is left out below.
            since = int((datetime.now(timezone.utc) - _time(after)).total_seconds()) + 2
        lines = self._api.client.log(name, follow=True, since=since, timestamps=True, newlines=False)
        async for line in lines:
            time, _, text = line.partition(" ")
            if time > after:
                yield time, text


def _time(text: str) -> datetime:
    # Nanoseconds are more than Python reads.
    return datetime.fromisoformat(text[:19]).replace(tzinfo=timezone.utc)
