"""The stream of events of a run: a document per second for each listener, until the run ends."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from sangam.components.record.store import StoredRun
from sangam.pipelines.ui.live import document, memory_of, point, read_live, read_points, seconds_before, thinned

MAX_LISTENERS = 32
EVERY_S = 1.0
_MEMORY_EVERY_S = 5.0
"""Seconds between samples of memory, for which the kernel counts the pages of each process."""
_PAST_RUNS = 5
_RETRY_MS = 2000

FindRun = Callable[[str], StoredRun]
"""Returns a run of the root by its id; raises `NotHere`."""
PastRuns = Callable[[StoredRun, int], list[StoredRun]]
"""Returns at most n runs of the same ranker before a run, newest first."""


class Events:
    """All streams of a server. Files of a run are read once a second for all listeners."""

    def __init__(self, find_run: FindRun, past_runs: PastRuns):
        self._find_run, self._past_runs = find_run, past_runs
        self._num_listeners = 0
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}
        self._before: tuple[str, dict[str, float]] = ("", {})
        self._memory: tuple[float, int | None] = (-1e9, None)
        self._reading = asyncio.Lock()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answers with events `progress`, then `ended`."""
        name = request.match_info["run"]
        await asyncio.to_thread(self._find_run, name)
        if self._num_listeners >= MAX_LISTENERS:
            raise web.HTTPServiceUnavailable(
                text=f"{MAX_LISTENERS} pages are listening already: close one", headers={"Retry-After": "10"}
            )
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
        )
        self._num_listeners += 1
        try:
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                await self._send_all(response, name)
        finally:
            self._num_listeners -= 1
        return response

    async def _send_all(self, response: web.StreamResponse, name: str) -> None:
        await response.write(f"retry: {_RETRY_MS}\n\n".encode())
        last = -1
        while True:
            told = await self.current(name)
            newest = told["points"]
            # A resumed training continues from an earlier step: send its curves again.
            if last < 0 or (newest and newest[-1]["step"] < last):
                points = await asyncio.to_thread(self._all_points, name)
                told = {**told, "points": points, "is_new": True}
            else:
                told = {**told, "points": [each for each in newest if each["step"] > last], "is_new": False}
            last = newest[-1]["step"] if newest else last
            is_over = told["state"] != "running"
            await response.write(_event("ended" if is_over else "progress", told))
            if is_over:
                return
            await asyncio.sleep(EVERY_S)

    async def current(self, name: str) -> dict[str, Any]:
        """Returns the document of a run, with the newest points of its curves; at most one second old."""
        async with self._reading:
            read_at, told = self._known.get(name, (-1e9, {}))
            if time.monotonic() - read_at > 0.9 * EVERY_S:
                told = await asyncio.to_thread(self._read, name)
                # A root has one run at a time: all others have ended.
                self._known = {name: (time.monotonic(), told)}
        return told

    def _read(self, name: str) -> dict[str, Any]:
        run = self._find_run(name)
        if name != self._before[0]:
            self._before = (name, seconds_before(self._past_runs(run, _PAST_RUNS)))
        return document(read_live(run, self._before[1], memory=self._memory_of))

    def _memory_of(self, run: StoredRun) -> int | None:
        if time.monotonic() - self._memory[0] > _MEMORY_EVERY_S:
            self._memory = (time.monotonic(), memory_of(run))
        return self._memory[1]

    def _all_points(self, name: str) -> list[dict[str, Any]]:
        return [point(each) for each in thinned(read_points(self._find_run(name)))]


def _event(kind: str, told: dict[str, Any]) -> bytes:
    # JSON contains no raw line feed, which would end the event.
    return f"event: {kind}\ndata: {json.dumps(told, allow_nan=False)}\n\n".encode()
