"""The generator's users and posts as a feed that is served: who would click on what, hour by hour.

Probabilities are known, so the best order of any candidates is, and the clicks to expect of every other order.
"""

from dataclasses import dataclass, replace

import numpy as np

from sangam.pipelines.synthetic.simulation import AFFINITY_SCALE, SAME_LANGUAGE_EFFECT
from sangam.pipelines.synthetic.world import (
    LANGUAGES,
    NUM_FACTORS,
    POST_BIAS_SD,
    TASKS,
    TOPICS,
    Floats,
    Ints,
    Posts,
    Scale,
    Users,
    joined,
    make_world,
    posts_of,
    users_of,
)

HOUR_S = 3600
_CLICK = TASKS.index("like")
_TREND_PACE = 4.0
"""Ratio of the speed of trends to that of tastes."""
_HEAT_EFFECT, _AGE_EFFECT, _OFFSET = 1.0, 0.04, -1.6
"""Of a standard deviation of a post's trend, and of an hour of its age, on the logit of a click; of the mean."""
_NEXT_SLOT = 0.9
_LIKED = 10


@dataclass(frozen=True)
class Size:
    """Sizes of a world.

    Attributes:
        users: number of users; few of them send most requests.
        posts: number of posts in the first hour; each later hour brings 6 % as many.
        requests: number an hour.
        candidates: number of a request's posts.
        shown: number of them that the user sees.
        lives_h: age in hours at which posts are no candidates any more.
        drift: speed of tastes: after 1 / drift days the correlation with what they were is 1 / e. Trends are four times
            as fast.
    """

    users: int = 600
    posts: int = 240
    requests: int = 200
    candidates: int = 24
    shown: int = 8
    lives_h: int = 24
    drift: float = 0.5


@dataclass(frozen=True)
class Request:
    """One user and some posts, as indices, with the probabilities of clicks on each in the first slot."""

    user: int
    posts: Ints
    probabilities: Floats


def examined(num_slots: int) -> Floats:
    """Returns the probabilities that a user looks at each slot."""
    return np.asarray(_NEXT_SLOT ** np.arange(num_slots))


def expected_clicks(probabilities: Floats, order: Ints, shown: int) -> float:
    """Returns the clicks to expect of candidates in an order, the first of which are shown."""
    return float(probabilities[order[:shown]] @ examined(min(shown, len(order))))


class World:
    """Users, posts, and the hour that both are in."""

    def __init__(self, size: Size, seed: int, start_s: int):
        """Makes the first hour's.

        Args:
            size: sizes.
            seed: of everything random.
            start_s: start of the first hour, in seconds since 1970.
        """
        self.size, self.hour_s, self._number = size, start_s, 0
        self._scale = Scale(rows_per_day=0, num_users=size.users, num_posts=size.posts, seed=seed, drift=1.0)
        self._parts = make_world(self._scale, 1)
        self._moves, self._draws = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
        self.users: Users = users_of(self._parts, 0)
        self._share = self.users.popularity / self.users.popularity.sum()
        self.posts: Posts = self._born(posts_of(self._parts, 0, start_s), size.lives_h)
        self.topics = self._topics(self.posts)
        self.liked: list[list[int]] = [[] for _ in range(size.users)]

    def next_hour(self) -> None:
        """Moves tastes and trends, and brings new posts, that were uploaded in the hour that has ended."""
        self._number, self.hour_s = self._number + 1, self.hour_s + HOUR_S
        taste, trend = self.size.drift / 24, _TREND_PACE * self.size.drift / 24
        self.users = replace(self.users, factors=self._moved(self.users.factors, taste, NUM_FACTORS**-0.5))
        new = self._born(posts_of(self._parts, self._number, self.hour_s), 1)
        posts = replace(
            self.posts,
            heat=self._moved(self.posts.heat, trend, 1.0),
            bias=self._moved(self.posts.bias, trend, POST_BIAS_SD),
        )
        self.posts, self.topics = joined(posts, new), np.concatenate([self.topics, self._topics(new)])

    def living(self) -> Ints:
        """Returns the posts that may be candidates."""
        return np.flatnonzero(self.posts.born_s > self.hour_s - self.size.lives_h * HOUR_S)

    def request(self, at_s: float) -> Request:
        """Draws a user, more often the active ones, and candidates."""
        user = int(self._draws.choice(self.size.users, p=self._share))
        posts = self._draws.choice(self.living(), self.size.candidates, replace=False)
        return Request(user, posts, self.probabilities(user, posts, at_s))

    def probabilities(self, user: int, posts: Ints, at_s: float) -> Floats:
        """Returns the probabilities that a user clicks on posts that he looks at."""
        of, parts = self.posts, self._parts
        affinity = of.factors[posts] @ (self.users.factors[user] * parts.task_factors[_CLICK])
        logits = (
            AFFINITY_SCALE * affinity
            + self.users.bias[user, _CLICK]
            + of.bias[posts, _CLICK]
            + _HEAT_EFFECT * of.heat[posts]
            + parts.author_bias[of.author[posts], _CLICK]
            + SAME_LANGUAGE_EFFECT[_CLICK] * (self.users.language[user] == of.language[posts])
            - _AGE_EFFECT * (at_s - of.born_s[posts]) / HOUR_S
            + _OFFSET
        )
        return np.asarray(1 / (1 + np.exp(-logits)))

    def clicks(self, probabilities: Floats) -> Ints:
        """Draws the slots that a user clicks on, of posts in the order in which they are shown."""
        drawn = self._draws.random(len(probabilities)) < probabilities * examined(len(probabilities))
        return np.flatnonzero(drawn)

    def note_click(self, user: int, post: int) -> None:
        """Adds a post to what a user liked last."""
        self.liked[user] = [*self.liked[user], int(self.topics[post])][-_LIKED:]

    def author_ids(self, posts: Ints) -> Ints:
        """Returns the ids of the posts' authors."""
        return self._parts.author_id[self.posts.author[posts]]

    def language(self, user: int) -> str:
        """Returns a user's language."""
        return LANGUAGES[self.users.language[user]]

    def _born(self, posts: Posts, hours: int) -> Posts:
        ages_s = self._moves.integers(1, hours * HOUR_S, len(posts.id))
        return replace(posts, born_s=self.hour_s - ages_s, heat=self._moves.normal(size=len(posts.id)))

    def _topics(self, posts: Posts) -> Ints:
        """Returns the topic nearest to each post."""
        return np.argmax(posts.factors @ self._parts.topic_factors.T, axis=1)

    def _moved(self, values: Floats, rate: float, deviation: float) -> Floats:
        kept = np.exp(-rate)
        return np.asarray(kept * values + np.sqrt(1 - kept**2) * self._moves.normal(scale=deviation, size=values.shape))


def topic_name(number: int) -> str:
    """Returns the name of a topic."""
    return TOPICS[number]
