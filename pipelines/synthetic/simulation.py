"""The views of a day: users, posts, times, tabs and labels."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sangam.pipelines.synthetic.drift import Day, after, day_of
from sangam.pipelines.synthetic.history import History, empty_history, recent, updated
from sangam.pipelines.synthetic.world import (
    DAY_S,
    EVENTS,
    LANGUAGES,
    MAX_TAGS,
    TASK_RATES,
    TASKS,
    Floats,
    Ints,
    Posts,
    Scale,
    Users,
    World,
    joined,
    make_world,
    posts_of,
    random,
    users_of,
)

TABS = ("home", "following", "explore", "search")
TAB_SHARES = (0.58, 0.2, 0.16, 0.06)
# Views by hour of the day: quiet at night, a peak at lunch and a larger one in the evening.
HOUR_WEIGHTS = np.array([3, 2, 1, 1, 1, 2, 3, 5, 6, 6, 6, 7, 9, 9, 7, 6, 6, 7, 9, 11, 13, 13, 10, 6], dtype=np.float64)
HALF_LIFE_DAYS = 3.0
NUM_CANDIDATES = 4
AFFINITY_SCALE = 1.5
# Effects on the logits of like, share, download and long_watch, per unit of the standardized input.
DURATION_EFFECT = np.array([0.0, 0.1, 0.25, -0.9])
SPEED_EFFECT = np.array([0.0, 0.0, 0.5, 0.2])
SAME_LANGUAGE_EFFECT = np.array([0.5, 0.6, 0.2, 0.4])
NULL_AUTHOR, NULL_LANGUAGE, NULL_AGE, NULL_SPEED = 0.01, 0.03, 0.02, 0.04
SPEED_OUTLIERS = 0.002


@dataclass(frozen=True)
class SimulatedDay:
    """One day of logs and the probabilities that its labels were drawn from."""

    date: datetime.date
    table: pa.Table
    probabilities: dict[str, Floats]


@dataclass(frozen=True)
class _Views:
    """Views of a day in the order of time, as indices into users, posts and tabs; `second` is the second of the day."""

    user: Ints
    post: Ints
    tab: Ints
    hour: Ints
    time_s: Ints
    second: Ints
    speed_mbps: Floats


def simulate(scale: Scale, *, first_day: datetime.date, num_days: int) -> Iterator[SimulatedDay]:
    """Yields the days in order. A day depends on those before it, not on the number of days."""
    world = make_world(scale, len(TABS))
    users, posts = None, None
    history = empty_history()
    offset: Floats | None = None
    for day in range(num_days):
        date = first_day + datetime.timedelta(days=day)
        start_s = (date - datetime.date(1970, 1, 1)).days * DAY_S
        new_users, new_posts = users_of(world, day), posts_of(world, day, start_s)
        users = joined(users, new_users) if users else new_users
        posts = joined(posts, new_posts) if posts else new_posts
        moving = day_of(scale, world, users, posts, day)
        rng = random(scale, EVENTS, day)
        views = _views(rng, world, users, posts, moving, start_s)
        logits = _logits(world, users, posts, moving, views)
        if offset is None:
            offset = np.array([_offset(logits[:, task], rate) for task, rate in enumerate(TASK_RATES)])
        probabilities = _sigmoid(logits + offset)
        labels = (rng.random(probabilities.shape) < probabilities).astype(np.int64)
        table = _table(rng, world, users, posts, views, labels, history)
        yield SimulatedDay(date, table, {name: probabilities[:, task] for task, name in enumerate(TASKS)})
        history = updated(history, views.user, posts.id[views.post], views.time_s)
        world, users, posts = after(moving, world, users, posts)


def _views(rng: np.random.Generator, world: World, users: Users, posts: Posts, moving: Day, start_s: int) -> _Views:
    num = world.scale.rows_per_day
    hour = rng.choice(24, size=num, p=HOUR_WEIGHTS / HOUR_WEIGHTS.sum())
    time_s = start_s + hour * 3_600 + rng.integers(3_600, size=num)
    order = np.argsort(time_s, kind="stable")
    hour, time_s = hour[order], time_s[order]
    second = time_s - start_s
    user = _draw(rng, users.popularity, num)
    # With drift, popularity changes with the minute.
    part_s = 60 if world.scale.drift else DAY_S
    candidates = _candidates(rng, posts, moving, start_s, second, part_s)
    # The feed shows posts that suit the user: the Gumbel trick draws one candidate with softmax(affinity).
    taste = np.einsum("nf,ncf->nc", moving.tastes.at(user, second), posts.factors[candidates])
    shown = np.argmax(2.0 * taste + rng.gumbel(size=taste.shape), axis=1)
    speed = users.speed_mbps[user] * rng.lognormal(sigma=0.3, size=num)
    is_outlier = rng.random(num) < SPEED_OUTLIERS
    return _Views(
        user=user,
        post=candidates[np.arange(num), shown],
        tab=rng.choice(len(TABS), size=num, p=TAB_SHARES),
        hour=hour,
        time_s=time_s,
        second=second,
        speed_mbps=np.round(np.where(is_outlier, speed * 10_000, speed), 3),
    )


def _candidates(rng: np.random.Generator, posts: Posts, moving: Day, start_s: int, second: Ints, part_s: int) -> Ints:
    """Returns the posts that could be shown at each second, ascending: [n, NUM_CANDIDATES].

    They are drawn by popularity at the start of each part of the day, among the posts that exist at that time.
    """
    every, drawn = np.arange(len(posts.id)), []
    bounds = np.searchsorted(second, np.arange(0, DAY_S + part_s, part_s))
    for part, num in enumerate(np.diff(bounds)):
        age_days = (start_s + part * part_s - posts.born_s) / DAY_S
        heat = moving.heat.at(every, np.full(len(every), part * part_s))
        weights = np.where(age_days < 0, 0.0, posts.popularity * np.exp(heat) * 0.5 ** (age_days / HALF_LIFE_DAYS))
        drawn.append(_draw(rng, weights, num * NUM_CANDIDATES))
    return np.concatenate(drawn).reshape(-1, NUM_CANDIDATES)


def _logits(world: World, users: Users, posts: Posts, moving: Day, views: _Views) -> Floats:
    """Returns the logits of each view's labels, [views, tasks], up to one constant per task."""
    user, post, second = views.user, views.post, views.second
    tastes = moving.tastes.at(user, second)
    affinity = np.einsum("nf,tf,nf->nt", tastes, world.task_factors, posts.factors[post])
    duration = (np.log(posts.duration_s[post]) - 3.2) / 0.9
    speed = (np.log(np.minimum(views.speed_mbps, 1_000) + 1e-3) - 2.5) / 0.95
    same_language = users.language[user] == posts.language[post]
    return np.asarray(
        AFFINITY_SCALE * affinity
        + users.bias[user]
        + moving.post_bias.at(post, second)
        + world.author_bias[posts.author[post]]
        + _tag_effects(posts, moving, post, second)
        + world.tab_bias[views.tab]
        + world.hour_bias[views.hour]
        + duration[:, None] * DURATION_EFFECT
        + speed[:, None] * SPEED_EFFECT
        + same_language[:, None] * SAME_LANGUAGE_EFFECT
    )


def _tag_effects(posts: Posts, moving: Day, post: Ints, second: Ints) -> Floats:
    """Returns the mean effect of each view's hashtags, [views, tasks]."""
    num_tags = posts.num_tags[post]
    effects = np.zeros((len(post), len(TASKS)))
    for place in range(MAX_TAGS):
        share = (place < num_tags) / np.maximum(num_tags, 1)
        effects += moving.tag_bias.at(posts.tags[post, place], second) * share[:, None]
    return effects


def _table(
    rng: np.random.Generator,
    world: World,
    users: Users,
    posts: Posts,
    views: _Views,
    labels: Ints,
    history: History,
) -> pa.Table:
    post, author = views.post, posts.author[views.post]
    num = len(post)
    num_tags = posts.num_tags[post]
    tags = posts.tags[post][np.arange(MAX_TAGS) < num_tags[:, None]]
    tag_offsets = np.concatenate([[0], np.cumsum(num_tags)])
    recent_offsets, recent_posts = recent(history, views.user)
    age_h = np.round((views.time_s - posts.born_s[post]) / 3_600, 3)
    language = np.array(LANGUAGES)[users.language[views.user]]

    def some_null(values: Any, share: float, kind: Any) -> pa.Array:
        return pa.array(values, type=kind, mask=rng.random(num) < share)

    columns = {
        "user_id": pa.array(users.id[views.user], type=pa.string()),
        "post_id": pa.array(posts.id[post], type=pa.int64()),
        "author_id": some_null(world.author_id[author], NULL_AUTHOR, pa.int64()),
        "language": some_null(language, NULL_LANGUAGE, pa.string()),
        "tab": pa.array(np.array(TABS)[views.tab], type=pa.string()),
        "hashtags": _lists(tag_offsets, pa.array(world.tag_name, type=pa.string()).take(pa.array(tags))),
        "recent_posts": _lists(recent_offsets, pa.array(recent_posts, type=pa.int64())),
        "duration_s": pa.array(posts.duration_s[post], type=pa.float64()),
        "post_age_h": some_null(age_h, NULL_AGE, pa.float64()),
        "author_followers": pa.array(world.author_followers[author], type=pa.float64()),
        "network_mbps": some_null(views.speed_mbps, NULL_SPEED, pa.float64()),
        "hour": pa.array(views.hour, type=pa.int64()),
        "event_time": pa.array(views.time_s, type=pa.int64()),
    }
    columns |= {name: pa.array(labels[:, task], type=pa.int64()) for task, name in enumerate(TASKS)}
    return pa.table(columns)


def _lists(offsets: Ints, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), values)


def _draw(rng: np.random.Generator, weights: Floats, num: int) -> Ints:
    cumulative = np.cumsum(weights)
    drawn = np.searchsorted(cumulative, rng.random(num) * cumulative[-1], side="right")
    return np.asarray(np.minimum(drawn, len(weights) - 1), dtype=np.int64)


def _offset(logits: Floats, rate: float) -> float:
    """Returns the constant that gives the logits a mean probability of `rate`, by bisection."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _sigmoid(logits + middle).mean() > rate else (middle, high)
    return (low + high) / 2


def _sigmoid(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logits)))
