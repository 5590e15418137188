"""What moves in the simulated feed: nothing without drift, tastes and trends by the hour with it."""

import datetime
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sangam.pipelines.synthetic import Scale, SimulatedDay, simulate
from sangam.pipelines.synthetic.drift import TREND_PACE, Walk, day_of
from sangam.pipelines.synthetic.world import make_world, posts_of, users_of

pytestmark = pytest.mark.slow

FIRST_DAY = datetime.date(2026, 3, 1)
STILL = Scale(rows_per_day=3_000, num_users=200, num_posts=300, seed=3)
MOVING = Scale(rows_per_day=20_000, num_users=4_000, num_posts=2_000, seed=7, drift=1.0)
_DAY_S = 86_400


def _days(scale: Scale, num: int) -> Iterator[SimulatedDay]:
    return simulate(scale, first_day=FIRST_DAY, num_days=num)


@pytest.fixture(scope="module")
def moved() -> list[SimulatedDay]:
    return list(_days(MOVING, 4))


def test_without_drift_the_logs_are_those_from_before_there_was_drift() -> None:
    digest = hashlib.sha256()
    for day in _days(STILL, 4):
        digest.update(repr(day.table.to_pydict()).encode())
    assert digest.hexdigest() == "f817d4ab9efe32c69db9f45e9aff97276d9c2b6f81b3fcda6d52167c7408db4b"


def test_a_day_follows_from_the_seed_and_the_days_before(moved: list[SimulatedDay]) -> None:
    assert all(again.table.equals(day.table) for again, day in zip(_days(MOVING, 2), moved, strict=False))
    other = next(_days(replace(MOVING, seed=4), 1))
    assert not other.table.equals(moved[0].table)
    assert not next(islice(_days(replace(MOVING, drift=0.5), 2), 1, None)).table.equals(moved[1].table)


def test_a_walk_forgets_at_its_rate_keeps_its_variance_and_is_linear_between_hours() -> None:
    scale = replace(STILL, num_users=20_000, drift=1.0)
    world = make_world(scale, 4)
    day = day_of(scale, world, users_of(world, 0), posts_of(world, 0, 0), 0)
    assert isinstance(day.tastes, Walk)
    hourly = day.tastes.hourly
    assert np.corrcoef(hourly[0].ravel(), hourly[24].ravel())[0, 1] == pytest.approx(np.exp(-1), abs=0.01)
    assert np.corrcoef(hourly[0].ravel(), hourly[6].ravel())[0, 1] == pytest.approx(np.exp(-0.25), abs=0.01)
    assert np.square(hourly).sum(axis=2).mean(axis=1) == pytest.approx(np.ones(25), abs=0.02)
    assert isinstance(day.tag_bias, Walk)
    tags = day.tag_bias.hourly
    assert np.corrcoef(tags[0].ravel(), tags[24].ravel())[0, 1] == pytest.approx(np.exp(-TREND_PACE), abs=0.1)
    user, at = np.array([7, 7, 7]), np.array([3_600, 5_400, 7_200])
    first, middle, last = day.tastes.at(user, at)
    assert first == pytest.approx(hourly[1, 7])
    assert middle == pytest.approx((first + last) / 2)


def _likes_of_top_posts(day: SimulatedDay, first_hour: int, last_hour: int) -> dict[int, float]:
    """Returns the true mean probability of a like of the posts with most views, over some hours."""
    posts, hours = day.table["post_id"].to_numpy(), day.table["hour"].to_numpy()
    names, counts = np.unique(posts, return_counts=True)
    chosen = (first_hour <= hours) & (hours < last_hour)
    means = {}
    for post in names[np.argsort(-counts)][:40].tolist():
        of_post = chosen & (posts == post)
        if of_post.sum() >= 10:
            means[post] = float(np.log(day.probabilities["like"][of_post]).mean())
    return means


def _moves(day: SimulatedDay) -> float:
    """Returns by how much the posts' likes differ between noon and evening: root mean square of the logarithms."""
    noon, evening = _likes_of_top_posts(day, 11, 14), _likes_of_top_posts(day, 20, 23)
    both = noon.keys() & evening.keys()
    assert len(both) >= 10
    differences = np.array([noon[post] - evening[post] for post in both])
    return float(np.sqrt(np.square(differences - differences.mean()).mean()))


def test_what_is_liked_of_a_post_moves_over_the_hours_of_a_day(moved: list[SimulatedDay]) -> None:
    still = list(_days(replace(MOVING, drift=0.0), 2))
    assert _moves(moved[1]) > 1.5 * _moves(still[1])


def test_posts_appear_all_day_and_become_popular_and_unpopular(moved: list[SimulatedDay]) -> None:
    day = moved[2]
    seen = {post for before in moved[:2] for post in before.table["post_id"].to_pylist()}
    hours: dict[int, list[int]] = {}
    for post, hour in zip(day.table["post_id"].to_pylist(), day.table["hour"].to_pylist(), strict=True):
        hours.setdefault(post, []).append(hour)
    first_seen = np.array([of_post[0] for post, of_post in hours.items() if post not in seen])
    assert (np.histogram(first_seen, [0, 8, 12, 16, 20, 24])[0] > 0).all()
    ages = day.table["post_age_h"].drop_null().to_numpy()
    assert ages.min() >= 0
    assert ages.min() < 0.5


def _auc(day: SimulatedDay, scores: Any) -> float:
    return float(roc_auc_score(day.table["like"].to_numpy(), scores))


def test_later_days_are_as_easy_for_who_knows_the_truth_as_the_first(moved: list[SimulatedDay]) -> None:
    aucs = [_auc(day, day.probabilities["like"]) for day in moved]
    assert min(aucs) > 0.7
    assert max(aucs) - min(aucs) < 0.06
    rates = [day.table["like"].to_numpy().mean() for day in moved]
    assert 0.04 < min(rates) < max(rates) < 0.12


def test_events_come_at_any_second_of_the_day(moved: list[SimulatedDay]) -> None:
    second = moved[1].table["event_time"].to_numpy() % _DAY_S
    assert len(np.unique(second // 60)) > 1_300
    assert (np.diff(second) >= 0).all()
