"""What a feature service knows of users and posts: sent with requests, and written as the tables of a spec."""

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.loop.world import Ints, Request, World, topic_name
from sangam.pipelines.synthetic.world import LANGUAGES

Inputs = dict[str, list[Any]]
"""Columns of a request; one value stands for all candidates."""


def day_of(at_s: float) -> str:
    """Returns the day of a time, as YYYY-MM-DD (UTC)."""
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).date().isoformat()


def put(folder: Path, name: str, at_s: float, rows: dict[str, Any]) -> None:
    """Writes a file of the day of a time, which appears whole; nothing without rows."""
    if not len(next(iter(rows.values()))):
        return
    place = folder / day_of(at_s)
    place.mkdir(parents=True, exist_ok=True)
    hidden = place / f".{name}.parquet"
    pq.write_table(pa.table(rows), hidden)
    hidden.rename(place / f"{name}.parquet")


@dataclass
class Counts:
    """Views and clicks of each post, in the order of the world's."""

    views: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    clicks: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def copy(self, num_posts: int) -> "Counts":
        """Returns a copy with a place for each post."""
        new = np.zeros(num_posts - len(self.views), np.int64)
        return Counts(np.concatenate([self.views, new]), np.concatenate([self.clicks, new]))


class Features:
    """The tables, with a version of the counts an hour, and the inputs of requests by their newest versions.

    Attributes:
        counts: views and clicks until now.
        served: those of the newest version, by which requests are made.
    """

    def __init__(self, folder: Path, world: World):
        """Takes the data folder and the world."""
        self._folder, self._world = folder, world
        self.counts = self.served = Counts()
        self._known = 0

    def publish(self) -> None:
        """Writes the versions as of the start of the world's hour."""
        world, at_s, posts = self._world, self._world.hour_s, self._world.posts
        name = f"{at_s}"
        self.counts = self.counts.copy(len(posts.id))
        self.served = self.counts.copy(len(posts.id))
        if self._known == 0 or at_s % 86_400 == 0:
            ids, languages = world.users.id, [world.language(user) for user in range(len(world.users.id))]
            put(self._folder / "users", name, at_s, _versions(ids, at_s) | {"language": languages})
        new = np.arange(self._known, len(posts.id))
        self._known = len(posts.id)
        facts = {
            "author_id": world.author_ids(new),
            "topic": [topic_name(number) for number in world.topics[new]],
            "post_language": [LANGUAGES[number] for number in posts.language[new]],
            "duration_s": posts.duration_s[new],
            "posted_at": posts.born_s[new],
        }
        put(self._folder / "posts", name, at_s, _versions(posts.id[new], at_s) | facts)
        living = world.living()
        counts = {"views": self.served.views[living], "clicks": self.served.clicks[living]}
        put(self._folder / "counts", name, at_s, _versions(posts.id[living], at_s) | counts)

    def inputs(self, request: Request, at_s: float, counts: Counts | None = None) -> Inputs:
        """Returns what a server is told of a request; `counts`: by an older version of them."""
        world, of, posts = self._world, self._world.posts, request.posts
        counts = (counts or self.served).copy(len(of.id))
        liked = [topic_name(number) for number in world.liked[request.user]]
        return {
            "user_id": [str(world.users.id[request.user])],
            "language": [world.language(request.user)],
            "asked_at": [int(at_s)],
            "liked": [liked or [""]],
            "liked_length": [len(liked)],
            "post_id": of.id[posts].tolist(),
            "author_id": world.author_ids(posts).tolist(),
            "topic": [topic_name(number) for number in world.topics[posts]],
            "post_language": [LANGUAGES[number] for number in of.language[posts]],
            "duration_s": of.duration_s[posts].tolist(),
            "posted_at": of.born_s[posts].tolist(),
            "views": counts.views[posts].tolist(),
            "clicks": counts.clicks[posts].tolist(),
        }


def _versions(ids: Any, at_s: int) -> dict[str, Any]:
    return {"id": ids, "updated_at": np.full(len(ids), at_s, np.int64)}
