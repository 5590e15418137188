"""The users, authors, hashtags and posts of the simulated feed, with their popularity and tastes.

The users or posts that arrive on one day are a cohort with its own random numbers, so that a day's logs depend only on
that day and earlier ones.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

TASKS = ("like", "share", "download", "long_watch")
TASK_RATES = (0.08, 0.015, 0.03, 0.35)
_TOPICS = "animals art beauty books cars comedy cooking dance diy fashion films fitness games music sport travel"
TOPICS = tuple(_TOPICS.split())
LANGUAGES = ("hi", "en", "ta", "te", "bn", "mr")
LANGUAGE_SHARES = (0.38, 0.22, 0.14, 0.11, 0.09, 0.06)
TAGS_PER_TOPIC = 12
MAX_TAGS = 8
NUM_FACTORS = 8
NEW_USERS_FRACTION = 0.02
NEW_POSTS_FRACTION = 0.06
POSTS_PER_AUTHOR = 8
TAG_BIAS_SD = 0.7
MAX_DRIFT = 24.0
"""Largest drift: tastes are sampled hourly, and faster ones would be noise."""
_POST_TASK_SD, _POST_SD = 0.4, 0.2
POST_BIAS_SD = float(np.hypot(_POST_TASK_SD, _POST_SD))
DAY_S = 86_400

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# One random stream per purpose, so that more draws for one purpose do not change the others.
_GLOBAL, _USERS, _POSTS, EVENTS, DRIFT = range(5)


@dataclass(frozen=True)
class Scale:
    """Sizes, seed and drift of the simulated feed.

    Attributes:
        rows_per_day: views per day.
        num_users: users on the first day; each later day adds 2 %.
        num_posts: posts on the first day; each later day adds 6 %.
        seed: seed of the logs; equal seeds give equal logs.
        drift: speed of tastes and trends: after 1 / drift days the correlation of a user's taste with its past is 1 /
            e. 0: no changes, and a day's new posts exist from midnight on.
    """

    rows_per_day: int
    num_users: int
    num_posts: int
    seed: int
    drift: float = 0.0

    @property
    def num_authors(self) -> int:
        """Number of authors, the same on all days."""
        return max(2, self.num_posts // POSTS_PER_AUTHOR)


@dataclass(frozen=True)
class Users:
    """Users U by index; `bias` is [U, tasks]."""

    id: npt.NDArray[Any]
    popularity: Floats
    factors: Floats
    bias: Floats
    language: Ints
    speed_mbps: Floats


@dataclass(frozen=True)
class Posts:
    """Posts P by index; `bias` is [P, tasks]; `tags` is [P, MAX_TAGS], of which the first `num_tags` count.

    `heat` is the logarithm of a factor of `popularity`.
    """

    id: Ints
    popularity: Floats
    heat: Floats
    factors: Floats
    bias: Floats
    language: Ints
    born_s: Ints
    duration_s: Floats
    author: Ints
    num_tags: Ints
    tags: Ints


@dataclass(frozen=True)
class World:
    """Parts that all days share: authors A, hashtags and the meaning of the latent factors; biases are [.., tasks]."""

    scale: Scale
    topic_factors: Floats
    task_factors: Floats
    author_id: Ints
    author_popularity: Floats
    author_topic: Ints
    author_followers: Floats
    author_bias: Floats
    tag_name: npt.NDArray[Any]
    tag_bias: Floats
    tab_bias: Floats
    hour_bias: Floats


Cohort = TypeVar("Cohort", Users, Posts)


def random(scale: Scale, stream: int, day: int = 0) -> np.random.Generator:
    """Returns the random numbers of one purpose on one day, counted from the first."""
    return np.random.default_rng([scale.seed, stream, day])


def make_world(scale: Scale, num_tabs: int) -> World:
    """Returns the parts that all days share."""
    rng, num_authors, num_tags = random(scale, _GLOBAL), scale.num_authors, len(TOPICS) * TAGS_PER_TOPIC
    popularity = zipf(rng, num_authors, 0.9)
    hours = np.arange(24)[:, None]
    return World(
        scale=scale,
        topic_factors=_unit(rng.normal(size=(len(TOPICS), NUM_FACTORS))),
        # All tasks share half of the taste; the other half is task-specific.
        task_factors=1.0 + 0.8 * rng.choice([-1.0, 1.0], size=(len(TASKS), NUM_FACTORS)),
        author_id=spread(np.arange(num_authors), salt=2),
        author_popularity=popularity,
        author_topic=rng.integers(len(TOPICS), size=num_authors),
        # Pareto with a tail index of 1/2: a few authors have more followers than all others together.
        author_followers=np.floor(np.minimum(100 * (1 + rng.pareto(0.5, size=num_authors)), 3e8)),
        author_bias=rng.normal(scale=0.5, size=(num_authors, len(TASKS))),
        tag_name=np.array([f"{topic}_{number:02d}" for topic in TOPICS for number in range(TAGS_PER_TOPIC)]),
        tag_bias=rng.normal(scale=TAG_BIAS_SD, size=(num_tags, len(TASKS))),
        tab_bias=rng.normal(scale=0.6, size=(num_tabs, len(TASKS))),
        hour_bias=0.3 * np.cos(2 * np.pi * (hours - rng.integers(24, size=(1, len(TASKS)))) / 24),
    )


def users_of(world: World, day: int) -> Users:
    """Returns the users who arrive on a day; day 0 has all earlier ones."""
    scale = world.scale
    rng = random(scale, _USERS, day)
    first, num = _cohort(scale.num_users, NEW_USERS_FRACTION, day)
    interests = rng.integers(len(TOPICS), size=(num, 2))
    factors = world.topic_factors[interests[:, 0]] + 0.7 * world.topic_factors[interests[:, 1]]
    ids = spread(np.arange(first, first + num), salt=1, bits=32)
    return Users(
        id=np.array([f"u_{number:x}" for number in ids.tolist()], dtype=object),
        popularity=zipf(rng, num, 0.8),
        factors=_unit(factors + 0.2 * rng.normal(size=factors.shape)),
        bias=rng.normal(scale=0.7, size=(num, len(TASKS))) + rng.normal(scale=0.3, size=(num, 1)),
        language=rng.choice(len(LANGUAGES), size=num, p=LANGUAGE_SHARES),
        speed_mbps=rng.lognormal(mean=2.5, sigma=0.9, size=num),
    )


def posts_of(world: World, day: int, start_s: int) -> Posts:
    """Returns the posts first shown on the day that starts at `start_s`: uploaded in the 24 hours before it, or, with
    drift, during the day; day 0 shows those of the 30 days before."""
    scale = world.scale
    rng = random(scale, _POSTS, day)
    first, num = _cohort(scale.num_posts, NEW_POSTS_FRACTION, day)
    share = world.author_popularity / world.author_popularity.sum()
    author = rng.choice(scale.num_authors, size=num, p=share)
    topic = np.where(rng.random(num) < 0.85, world.author_topic[author], rng.integers(len(TOPICS), size=num))
    tag_topic = np.where(
        rng.random((num, MAX_TAGS)) < 0.8, topic[:, None], rng.integers(len(TOPICS), size=(num, MAX_TAGS))
    )
    # Skewed within a topic; consecutive, hence distinct, within a post.
    tag_number = np.floor(TAGS_PER_TOPIC * rng.random((num, 1)) ** 2).astype(np.int64) + np.arange(MAX_TAGS)
    return Posts(
        id=spread(np.arange(first, first + num), salt=3),
        popularity=zipf(rng, num, 1.0),
        heat=np.zeros(num),
        factors=_unit(world.topic_factors[topic] + 0.15 * rng.normal(size=(num, NUM_FACTORS))),
        bias=rng.normal(scale=_POST_TASK_SD, size=(num, len(TASKS))) + rng.normal(scale=_POST_SD, size=(num, 1)),
        language=rng.choice(len(LANGUAGES), size=num, p=LANGUAGE_SHARES),
        born_s=(start_s if day == 0 or not scale.drift else start_s + DAY_S)
        - rng.integers(1, DAY_S * (30 if day == 0 else 1), size=num),
        duration_s=np.clip(rng.lognormal(mean=3.2, sigma=0.9, size=num), 2.0, 7_200.0).round(2),
        author=author,
        num_tags=np.minimum(rng.poisson(2.2, size=num), MAX_TAGS),
        tags=tag_topic * TAGS_PER_TOPIC + tag_number % TAGS_PER_TOPIC,
    )


def joined(first: Cohort, second: Cohort) -> Cohort:
    """Returns the concatenation of two cohorts."""
    columns = {
        field.name: np.concatenate([getattr(first, field.name), getattr(second, field.name)]) for field in fields(first)
    }
    return type(first)(**columns)


def zipf(rng: np.random.Generator, num: int, exponent: float) -> Floats:
    """Returns Zipf weights rank^-exponent of ranks in random order, the largest 1."""
    return (rng.permutation(num) + 1.0) ** -exponent


def spread(numbers: Ints, *, salt: int, bits: int = 62) -> Ints:
    """Returns distinct, pseudorandom ids: multiplication by an odd number permutes 2^bits."""
    odd = 0x9E3779B97F4A7C15 + 2 * salt  # 2^64 / golden ratio, as in Fibonacci hashing (Knuth, TAOCP 3, 6.4)
    mixed = (numbers.astype(np.uint64) + np.uint64(salt * 7_919)) * np.uint64(odd % 2**64)
    return (mixed & np.uint64(2**bits - 1)).astype(np.int64)


def _cohort(num_first: int, fraction: float, day: int) -> tuple[int, int]:
    num_new = max(1, round(num_first * fraction))
    return (0, num_first) if day == 0 else (num_first + (day - 1) * num_new, num_new)


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.sqrt(np.einsum("nf,nf->n", vectors, vectors))[:, None])
