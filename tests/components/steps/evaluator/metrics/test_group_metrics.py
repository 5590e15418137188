"""GAUC and metrics at k against loops over groups with scikit-learn's metrics and over all orders of equal scores."""

import itertools
from typing import Any

import numpy as np
import pytest

from sangam.components.steps.evaluator.metrics.bootstrap import weights
from sangam.components.steps.evaluator.metrics.group_metrics import (
    Groups,
    MeanSums,
    at_k,
    draws_of,
    gauc,
    grouped,
    means,
    order_of,
)
from sangam.schemas.host.splitmix64 import mix64

sklearn_metrics = pytest.importorskip("sklearn.metrics")

K = 3
METRICS = ["examples", "positives", "groups", f"ndcg_at_{K}", f"recall_at_{K}", f"hit_rate_at_{K}", f"mrr_at_{K}"]
"""GAUC by its weighting, and what lists are measured by."""


def hashed(numbers: Any) -> np.ndarray:
    return mix64(np.asarray(numbers, np.uint64))


def world(size: int = 400, num_groups: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns groups of about 3 examples, labels, and scores with many ties."""
    random = np.random.default_rng(1)
    return random.integers(0, num_groups, size), random.random(size) < 0.3, np.round(random.random(size), 1)


def groups_of(
    groups: Any, labels: Any, scores: Any, units: Any = None, replicates: int = 0, slices: Any = None
) -> Groups:
    """Returns the examples as groups of slices; by default of one."""
    places = np.zeros(len(groups), int) if slices is None else np.asarray(slices)
    order = np.lexsort((groups, places))
    keys, places = hashed(groups)[order], places[order]
    is_first = np.append(True, (keys[1:] != keys[:-1]) | (places[1:] != places[:-1]))
    starts = np.flatnonzero(is_first)
    units = hashed(groups if units is None else units)[order]
    numbers = np.cumsum(is_first) - 1
    falling = np.asarray(scores, np.float32)[order]
    within = order_of(numbers, falling)
    return grouped(
        groups=numbers,
        draws=draws_of(units, keys[starts], starts, replicates, seed=1),
        is_positive=np.asarray(labels, bool)[order][within],
        scores=falling[within],
        slices_G=places[starts],
    )


def sums(metric: str, groups: Groups, of_slice: int = 0) -> MeanSums:
    values = at_k(groups, [K])[metric] if "_at_" in metric else gauc(groups, metric)
    return means(groups, {metric: values})[of_slice][metric]


def expected(metric: str, groups: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> tuple[float, int, int]:
    """Returns the mean, how many groups count and how many do not, by a loop over the groups."""
    parts, wholes, skipped = [], [], 0
    for group in np.unique(groups):
        chosen = groups == group
        value = _value(metric, labels[chosen].astype(int), scores[chosen])
        if value is None:
            skipped += 1
            continue
        wholes.append({"examples": chosen.sum(), "positives": labels[chosen].sum()}.get(metric, 1))
        parts.append(value * wholes[-1])
    return sum(parts) / sum(wholes), len(wholes), skipped


def _value(metric: str, labels: np.ndarray, scores: np.ndarray) -> float | None:
    if "_at_" not in metric:
        return sklearn_metrics.roc_auc_score(labels, scores) if len(set(labels)) == 2 else None
    if not labels.any():
        return None
    if metric.startswith("ndcg"):
        return sklearn_metrics.ndcg_score([labels], [scores], k=K) if len(labels) > 1 else 1.0
    if metric.startswith(("hit_rate", "mrr")):
        return float(np.mean([_first_positive(metric, ordered) for ordered in _orders(labels, scores)]))
    border = np.sort(scores)[::-1][min(K, len(scores)) - 1]
    above, tied = scores > border, scores == border
    share = min(1, (K - above.sum()) / tied.sum())
    return (labels[above].sum() + labels[tied].sum() * share) / labels.sum()


def _orders(labels: np.ndarray, scores: np.ndarray) -> list[list[int]]:
    """Returns the labels by falling score, in every order of equal scores."""
    runs = [labels[scores == score].tolist() for score in sorted(set(scores), reverse=True)]
    return [list(itertools.chain(*parts)) for parts in itertools.product(*map(itertools.permutations, runs))]


def _first_positive(metric: str, ordered: list[int]) -> float:
    rank = ordered.index(1) + 1
    return 0.0 if rank > K else 1.0 if metric.startswith("hit_rate") else 1 / rank


@pytest.mark.parametrize("metric", METRICS)
def test_equals_a_loop_over_the_groups_and_says_how_many_were_skipped(metric: str) -> None:
    found = sums(metric, groups_of(*world()))
    mean, counted, skipped = expected(metric, *world())
    assert found.mean()[0] == pytest.approx(mean)
    assert (found.counted, found.skipped) == (counted, skipped)
    assert skipped > 0


def test_metrics_at_k_by_hand() -> None:
    lists = groups_of([1, 1, 1, 1], [False, True, False, True], [0.9, 0.8, 0.7, 0.6])
    found = means(lists, at_k(lists, [2]))[0]
    ideal = 1 + 1 / np.log2(3)
    assert found["ndcg_at_2"].mean()[0] == pytest.approx((1 / np.log2(3)) / ideal)
    assert found["recall_at_2"].mean()[0] == 0.5
    assert (found["hit_rate_at_2"].mean()[0], found["mrr_at_2"].mean()[0]) == (1, 0.5)


def test_the_first_of_many_equal_scores_is_a_positive_with_the_probability_of_its_share() -> None:
    labels, scores = np.arange(1000) == 700, np.zeros(1000)
    lists = groups_of([1] * 1000, labels, scores)
    found = {name: of_slice.mean()[0] for name, of_slice in means(lists, at_k(lists, [10]))[0].items()}
    assert found["hit_rate_at_10"] == pytest.approx(0.01)
    assert found["mrr_at_10"] == pytest.approx(sum(1 / rank for rank in range(1, 11)) / 1000)


@pytest.mark.parametrize("metric", METRICS)
def test_a_replicate_equals_the_metric_of_groups_repeated_by_their_weights(metric: str) -> None:
    groups, labels, scores = world()
    found = sums(metric, groups_of(groups, labels, scores, replicates=8)).mean()
    drawn = weights(hashed(groups), 8, seed=1)
    for replicate in (1, 8):
        times = drawn[:, replicate]
        # Copies of a group are groups of their own.
        copy = np.concatenate([np.arange(count) for count in times])
        repeated = np.repeat(groups, times) * 1_000 + copy
        mean, _, _ = expected(metric, repeated, np.repeat(labels, times), np.repeat(scores, times))
        assert found[replicate] == pytest.approx(mean)


def test_groups_are_drawn_with_their_user_where_they_have_one_and_by_themselves_where_they_have_several() -> None:
    keys = hashed([1, 2, 3])
    units = hashed([7, 7, 7, 7, 8, 9])
    first, second, third = draws_of(units, keys, np.array([0, 2, 4]), 30, seed=1).times_NR.tolist()
    of_user, of_third = weights(np.stack([units[0], keys[2]]), 30, seed=1).tolist()
    assert first == second == of_user
    assert third == of_third


@pytest.mark.parametrize("metric", METRICS)
def test_groups_of_many_slices_are_measured_as_if_each_slice_were_alone(metric: str) -> None:
    groups, labels, scores = world()
    slices = np.random.default_rng(2).integers(0, 3, len(groups))
    together = groups_of(groups, labels, scores, replicates=4, slices=slices)
    for number in range(3):
        mine = slices == number
        alone = sums(metric, groups_of(groups[mine], labels[mine], scores[mine], replicates=4))
        found = sums(metric, together, number)
        np.testing.assert_allclose(found.mean(), alone.mean())
        assert (found.counted, found.skipped) == (alone.counted, alone.skipped)


@pytest.mark.parametrize("metric", METRICS)
def test_sums_over_sets_of_groups_add_up(metric: str) -> None:
    groups, labels, scores = world()
    whole = sums(metric, groups_of(groups, labels, scores, replicates=5))
    left, right = (
        sums(metric, groups_of(groups[chosen], labels[chosen], scores[chosen], replicates=5))
        for chosen in (groups < 47, groups >= 47)
    )
    np.testing.assert_allclose(right.plus(left).mean(), whole.mean())
    assert (left.counted + right.counted, left.skipped + right.skipped) == (whole.counted, whole.skipped)


def test_groups_of_one_class_alone_leave_the_mean_undefined() -> None:
    found = sums("examples", groups_of([1, 1, 2], [True, True, False], [0.1, 0.2, 0.3], replicates=2))
    assert np.isnan(found.mean()).all()
    assert (found.counted, found.skipped) == (0, 2)
