"""Users' requests: ranked by a server, shown, clicked on, and reported by the client as files of actions."""

import heapq
import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from bench.loop.bugs import Bug
from bench.loop.clock import Clock
from bench.loop.programs import Server
from bench.loop.spec import WINDOW_S
from bench.loop.tables import Counts, Features, Inputs, day_of, put
from bench.loop.world import HOUR_S, Floats, Ints, World

_FIRST_S, _LAST_S = 60, 3540
"""Of an hour, in which requests come: not beside the new versions of the tables, which have the time of its start."""
_MEAN_DELAY_S, _LONGEST_S = 240.0, WINDOW_S - 60.0
FLUSH_S = 600.0


@dataclass(frozen=True)
class Answer:
    """What became of an answered request.

    Attributes:
        request_id: its id.
        at_s: when the answer came, by the world's clock.
        real_s: the same by time.monotonic.
        server: number of the server.
        served: number of that server's process, counted from 1.
        is_explored: the order was drawn, whatever the scores.
        has_bug: the inputs were wrong.
        inputs: inputs as they were sent.
        probabilities: of clicks on the candidates, in the first slot.
        order: candidates, by place; the first ones were shown.
        popularity: clicks on each candidate until then.
        posts: ids of the candidates.
        clicked: ids of those that were clicked on.
    """

    request_id: str
    at_s: float
    real_s: float
    server: int
    served: int
    is_explored: bool
    has_bug: bool
    inputs: Inputs
    probabilities: Floats
    order: Ints
    popularity: Ints
    posts: Ints
    clicked: Ints


class Traffic:
    """Requests of a world, hour by hour.

    Attributes:
        answers: what was answered.
        failed: ids of requests that were not.
        bug: bug by which inputs are wrong now.
        explores: share of the requests whose order is drawn; 1 before anything is learned.
    """

    def __init__(self, world: World, features: Features, clock: Clock, folder: Path, servers: Sequence[Server]):
        """Takes the world, its tables and clock, the data folder, and the servers, which take turns."""
        self._world, self._features, self._clock, self._folder = world, features, clock, folder
        self._servers, self._turn = servers, itertools.count()
        self._draws = np.random.default_rng([len(world.users.id), 3])
        self.answers: list[Answer] = []
        self.failed: list[str] = []
        self.explores = 1.0
        self.bug: Bug | None = None
        self._counts_of_bug: Counts | None = None
        self._later: list[tuple[float, int, str, int, int]] = []
        self._number = itertools.count()
        self._shown: list[tuple[str, int, int]] = []
        self._clicked: list[tuple[str, int, int]] = []
        self._flushed_s = 0.0

    def begin_bug(self, bug: Bug) -> None:
        """Lets the inputs be wrong from now on."""
        self.bug, self._counts_of_bug = bug, self._features.served

    def hour(self, pace_s: Callable[[], float], tick: Callable[[], None], *, is_open: bool = True) -> None:
        """Sends an hour's requests.

        Args:
            pace_s: returns the seconds of an hour now.
            tick: is called before each request.
            is_open: whether users come.
        """
        start_s, due = self._world.hour_s, time.monotonic()
        self._features.publish()
        moments = np.sort(self._draws.uniform(_FIRST_S, _LAST_S, self._world.size.requests))
        asks = set(moments.tolist()) if is_open else set()
        for before, after in itertools.pairwise([0.0, *moments, HOUR_S - 1.0]):
            due += (after - before) / HOUR_S * pace_s()
            time.sleep(max(0.0, due - time.monotonic()))
            self._clock.move_to(start_s + after)
            tick()
            self._arrive()
            if after in asks:
                self._ask()
        self._world.next_hour()
        self._clock.move_to(start_s + HOUR_S)

    def finish(self) -> None:
        """Lets the last clicks arrive."""
        self._clock.move_to(self._clock.now() + WINDOW_S)
        self._arrive(is_last=True)

    def _ask(self) -> None:
        world, now = self._world, self._clock.now()
        request = world.request(now)
        counts = self._counts_of_bug if self.bug and self.bug.change is None else None
        inputs = self._features.inputs(request, now, counts)
        if self.bug and self.bug.change:
            inputs = self.bug.change(inputs)
        explored = self._draws.permutation(len(request.posts)) if self._draws.random() < self.explores else None
        request_id = str(uuid.UUID(bytes=self._draws.bytes(16), version=4))
        try:
            at = self._next_server()
            scores = np.array(self._servers[at].scores(inputs | _told(explored), request_id))
        except httpx.HTTPError:
            self.failed.append(request_id)
            return
        order = np.argsort(-scores, kind="stable") if explored is None else explored
        answered_s = self._clock.now()
        shown = order[: world.size.shown]
        clicked = shown[world.clicks(request.probabilities[shown])]
        ids, popularity = world.posts.id[request.posts], self._features.counts.clicks[request.posts]
        self._features.counts.views[request.posts[shown]] += 1
        self._shown += [(request_id, int(post), int(answered_s) + 1) for post in ids[shown]]
        for place in clicked:
            at_s = answered_s + 2 + min(self._draws.exponential(_MEAN_DELAY_S), _LONGEST_S)
            entry = (at_s, next(self._number), request_id, request.user, int(request.posts[place]))
            heapq.heappush(self._later, entry)
        self.answers.append(
            Answer(
                request_id=request_id,
                at_s=answered_s,
                real_s=time.monotonic(),
                server=at,
                served=self._servers[at].starts,
                is_explored=explored is not None,
                has_bug=self.bug is not None,
                inputs=inputs,
                probabilities=request.probabilities,
                order=order,
                popularity=popularity,
                posts=ids,
                clicked=ids[clicked],
            )
        )

    def _next_server(self) -> int:
        """Returns the number of the next server in turn that is ready.

        Raises:
            httpx.ConnectError: none is.
        """
        first, size = next(self._turn), len(self._servers)
        for number in range(first, first + size):
            if self._servers[number % size].is_ready():
                return number % size
        raise httpx.ConnectError("no server is ready")

    def _arrive(self, *, is_last: bool = False) -> None:
        """Lets clicks happen that are due, and writes what happened, every `FLUSH_S`."""
        now = self._clock.now()
        while self._later and (is_last or self._later[0][0] <= now):
            at_s, _, request_id, user, post = heapq.heappop(self._later)
            self._features.counts.clicks[post] += 1
            self._world.note_click(user, post)
            self._clicked.append((request_id, int(self._world.posts.id[post]), int(at_s)))
        if is_last or now - self._flushed_s >= FLUSH_S:
            self._flushed_s = now
            self._shown = _written(self._folder / "shown", self._shown, now)
            self._clicked = _written(self._folder / "clicked", self._clicked, now)


def _told(order: Ints | None) -> Inputs:
    """Returns the places of candidates that were drawn before the request, for the log."""
    if order is None:
        return {}
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return {"log/position": places.tolist(), "log/propensity": [1 / len(order)] * len(order)}


def _written(folder: Path, rows: list[tuple[str, int, int]], now: float) -> list[tuple[str, int, int]]:
    """Writes rows of actions, those of each day in a file; returns none."""
    for day in sorted({day_of(at) for _, _, at in rows}):
        of_day = [row for row in rows if day_of(row[2]) == day]
        ids, posts, times = zip(*of_day, strict=True)
        put(folder, f"{int(now)}", of_day[0][2], {"request_id": list(ids), "post_id": posts, "at": times})
    return []
