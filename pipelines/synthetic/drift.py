"""Changes of the feed during a day: tastes of users, trends of posts and hashtags.

Every moving number is an Ornstein-Uhlenbeck process: its autocorrelation decays at a constant rate and its variance is
constant, so that later days are as difficult as the first one. It is sampled at every full hour and interpolated
linearly.
"""

from dataclasses import dataclass, replace

import numpy as np

from sangam.pipelines.synthetic.world import (
    DRIFT,
    NUM_FACTORS,
    POST_BIAS_SD,
    TAG_BIAS_SD,
    Floats,
    Ints,
    Posts,
    Scale,
    Users,
    World,
    random,
)

TREND_PACE = 4.0
"""Ratio of the speed of posts and hashtags to that of tastes."""
HEAT_SD = 1.0
"""Standard deviation of the logarithm of a post's popularity around its mean."""
_HOURS, _HOUR_S = 24, 3_600


@dataclass(frozen=True)
class Still:
    """Constant numbers: [n, ...]."""

    values: Floats

    def at(self, index: Ints, _second: Ints) -> Floats:
        """Returns the values of some indices, independent of the second of the day."""
        return np.asarray(self.values[index])


@dataclass(frozen=True)
class Walk:
    """Moving numbers: `hourly` is [25, n, ...], from midnight to midnight."""

    hourly: Floats

    def at(self, index: Ints, second: Ints) -> Floats:
        """Returns the values of some indices, each at its second of the day."""
        hour, rest = np.divmod(second, _HOUR_S)
        share = (rest / _HOUR_S).reshape(rest.shape + (1,) * (self.hourly.ndim - 2))
        return np.asarray((1 - share) * self.hourly[hour, index] + share * self.hourly[hour + 1, index])


@dataclass(frozen=True)
class Day:
    """Numbers that may move on one day.

    Attributes:
        tastes: tastes of users, [U, factors].
        heat: logarithm of each post's popularity factor, [P].
        post_bias: effects of posts, [P, tasks].
        tag_bias: effects of hashtags, [tags, tasks].
    """

    tastes: Still | Walk
    heat: Still | Walk
    post_bias: Still | Walk
    tag_bias: Still | Walk


def day_of(scale: Scale, world: World, users: Users, posts: Posts, day: int) -> Day:
    """Returns the numbers of a day that starts with these users, posts and hashtags; constant without drift."""
    starts = users.factors, posts.heat, posts.bias, world.tag_bias
    if not scale.drift:
        return Day(*(Still(start) for start in starts))
    rng = random(scale, DRIFT, day)
    trend = TREND_PACE * scale.drift
    return Day(
        tastes=_walk(rng, users.factors, scale.drift, NUM_FACTORS**-0.5),
        heat=_walk(rng, posts.heat, trend, HEAT_SD),
        post_bias=_walk(rng, posts.bias, trend, POST_BIAS_SD),
        tag_bias=_walk(rng, world.tag_bias, trend, TAG_BIAS_SD),
    )


def after(day: Day, world: World, users: Users, posts: Posts) -> tuple[World, Users, Posts]:
    """Returns the hashtags, users and posts at the end of a day."""
    tastes, heat, post_bias, tag_bias = (_end(each) for each in (day.tastes, day.heat, day.post_bias, day.tag_bias))
    return replace(world, tag_bias=tag_bias), replace(users, factors=tastes), replace(posts, heat=heat, bias=post_bias)


def _end(moving: Still | Walk) -> Floats:
    return moving.values if isinstance(moving, Still) else np.asarray(moving.hourly[-1])


def _walk(rng: np.random.Generator, start: Floats, rate: float, deviation: float) -> Walk:
    """Returns a day's walk. After 1 / rate days, the correlation with the start is 1 / e."""
    kept = np.exp(-rate / _HOURS)
    hourly = np.empty((_HOURS + 1, *start.shape))
    hourly[0] = start
    for hour in range(_HOURS):
        fresh = rng.normal(scale=deviation, size=start.shape)
        hourly[hour + 1] = kept * hourly[hour] + np.sqrt(1 - kept**2) * fresh
    return Walk(hourly)
