"""A look every hour of a day is wrong no more often than promised; an ordinary interval is."""

import math

import pytest

from sangam.components.promotion.always_valid import half_width, interval
from sangam.components.promotion.paired import Estimate, aucs
from sangam.components.promotion.rule import decide
from sangam.components.reports.promotion import Paired, TaskComparison
from sangam.schemas.spec.release import DirectoryPush
from tests.components.promotion.worlds import first, world

WORLDS, HOURS, AN_HOUR = 200, 24, 60
ALPHA, TIGHTEST_AT = 0.1, 0.02
ORDINARY = 1.645
"""Standard errors of an interval of 90 % for one look."""


@pytest.mark.slow
def test_looking_every_hour_makes_no_more_false_decisions_than_promised() -> None:
    """Both versions are equally good, and a bound of no drop at all: each decision on it is false."""
    push = DirectoryPush(kind="directory", path="x", after="shadow", hours=0.5, max_auc_drop=0, judge="bound")
    false = {"promote": 0, "drop": 0}
    ordinary = 0
    for seed in range(WORLDS):
        whole = world(seed, HOURS * AN_HOUR)
        decisions, misses = [], False
        for hour in range(4, HOURS + 1):
            found = aucs(first(whole, hour * AN_HOUR))
            assert found is not None
            lower, upper = interval(found.difference, ALPHA, TIGHTEST_AT)
            paired = Paired(live=0, shadow=0, difference=0, lower=lower, upper=upper)
            task = TaskComparison(task="like", users=1, examples=1, positives=1, is_enough=True, auc=paired)
            decisions.append(decide([task], push, 0.5).decision)
            misses |= abs(found.difference.value) > ORDINARY * found.difference.standard_error
        for wrong in false:
            false[wrong] += wrong in decisions
        ordinary += misses
    assert sum(false.values()) <= ALPHA * WORLDS
    assert ordinary > 2 * ALPHA * WORLDS


@pytest.mark.parametrize("standard_error", [0.004, 0.02, 0.1])
def test_the_width_is_that_of_the_paper(standard_error: float) -> None:
    """Theorem 2.2 with t users of variance 1: SE = 1 / sqrt(t), and their rho for the t at which it is tightest."""
    t, tightest = 1 / standard_error**2, 1 / TIGHTEST_AT**2
    rho = math.sqrt((-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA) + 1)) / tightest)
    mixed = t * rho**2 + 1
    expected = math.sqrt(2 * mixed / (t * rho) ** 2 * math.log(math.sqrt(mixed) / ALPHA))
    assert half_width(standard_error, ALPHA, TIGHTEST_AT) == pytest.approx(expected)


def test_the_interval_is_about_the_value_and_infinite_without_information() -> None:
    assert interval(Estimate(0.1, 0), ALPHA, TIGHTEST_AT) == (0.1, 0.1)
    assert interval(Estimate(0.1, math.inf), ALPHA, TIGHTEST_AT) == (-math.inf, math.inf)
