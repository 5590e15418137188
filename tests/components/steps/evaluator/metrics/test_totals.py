"""The metrics of a slice: scikit-learn's, undefined where they mean nothing, the same however they are added up."""

import math
from typing import Any

import numpy as np
import pytest

from sangam.components.steps.evaluator.metrics.bootstrap import weights
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.totals import Part
from sangam.components.steps.evaluator.metrics.totals_binary import BinaryTotals
from sangam.components.steps.evaluator.metrics.totals_regression import RegressionTotals
from sangam.schemas.host.splitmix64 import mix64

sklearn_metrics = pytest.importorskip("sklearn.metrics")


def part(scores: Any, labels: Any, first: int = 0) -> Part:
    """Returns examples, each drawn by itself; `first` is the number of the first one."""
    ids = mix64(np.arange(first, first + len(scores), dtype=np.uint64))
    return Part(ids, ids, np.array(labels, np.float64), np.array(scores, np.float64))


def add(totals: Any, part: Part, replicates: int) -> None:
    totals.add(part, Draws.of(part.units, replicates, seed=1))


def binary(scores: Any, labels: Any, replicates: int = 0) -> BinaryTotals:
    totals = BinaryTotals(replicates, seed=1)
    add(totals, part(scores, labels), replicates)
    return totals


def regression(scores: Any, labels: Any, replicates: int = 0) -> RegressionTotals:
    totals = RegressionTotals(replicates, seed=1)
    add(totals, part(scores, labels), replicates)
    return totals


def rare(size: int, mean_logit: float = -3.0) -> tuple[np.ndarray, np.ndarray]:
    """Returns scores and labels of an event as rare as the mean of the logits says."""
    random = np.random.default_rng(1)
    scores = (1 / (1 + np.exp(-random.normal(mean_logit, 1.0, size)))).astype(np.float32).astype(float)
    return scores, (random.random(size) < scores).astype(float)


def values(totals: Any) -> dict[str, float]:
    """Returns the metrics of the examples as they are."""
    return {name: float(each[0]) for name, each in totals.metrics().items()}


def calibration_error(scores: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean distance of prediction and label over tenths of the examples; no two scores are equal."""
    order = np.argsort(scores)
    tenths = np.floor(10 * (np.arange(len(scores)) + 0.5) / len(scores))
    gaps = [abs((scores[order] - labels[order])[tenths == tenth].sum()) for tenth in range(10)]
    return float(sum(gaps) / len(scores))


def check_binary(metrics: dict[str, float], scores: np.ndarray, labels: np.ndarray) -> None:
    """Compares all metrics with scikit-learn's."""
    log_loss, rate = sklearn_metrics.log_loss(labels, scores), labels.mean()
    assert metrics["auc"] == pytest.approx(sklearn_metrics.roc_auc_score(labels, scores), abs=1e-5)
    assert metrics["pr_auc"] == pytest.approx(sklearn_metrics.average_precision_score(labels, scores), abs=1e-4)
    assert metrics["log_loss"] == pytest.approx(log_loss, rel=1e-6)
    entropy = -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))
    assert metrics["normalized_entropy"] == pytest.approx(log_loss / entropy, rel=1e-6)
    assert metrics["calibration"] == pytest.approx(scores.sum() / labels.sum(), rel=1e-9)


@pytest.mark.parametrize("mean_logit", [-8.0, -5.0, 0.0, 8.0])
def test_binary_metrics_equal_scikit_learn_for_rare_and_for_common_events(mean_logit: float) -> None:
    scores, labels = rare(60_000, mean_logit)
    check_binary(values(binary(scores, labels)), scores, labels)


def test_calibration_error_is_the_distance_over_tenths_of_the_examples() -> None:
    scores, labels = rare(5_000)
    scores = np.unique(scores)
    labels = labels[: len(scores)]
    totals = binary(scores, labels)
    assert values(totals)["calibration_error"] == pytest.approx(calibration_error(scores, labels), abs=1e-4)
    buckets = totals.buckets()
    assert len(buckets) == 10
    assert sum(bucket["num_examples"] for bucket in buckets) == len(scores)
    assert buckets[9]["mean_prediction"] == pytest.approx(np.sort(scores)[-len(scores) // 10 :].mean(), rel=2e-3)


def test_equal_scores_stay_in_one_tenth() -> None:
    buckets = binary([0.25] * 30 + [0.75] * 10, [0] * 30 + [1] * 10).buckets()
    assert buckets == [
        {"mean_prediction": 0.25, "mean_label": 0.0, "num_examples": 30.0},
        {"mean_prediction": 0.75, "mean_label": 1.0, "num_examples": 10.0},
    ]


def test_ties_count_half() -> None:
    assert values(binary([0.5, 0.5, 0.9], [0, 1, 1]))["auc"] == 0.75


def test_saturated_scores_are_ordered_and_cost_a_finite_loss() -> None:
    assert values(binary([0.0, 1.0], [0, 1]))["auc"] == 1.0
    assert values(binary([0.0, 1.0], [1, 0]))["log_loss"] == pytest.approx(math.log(1e7), rel=1e-6)


@pytest.mark.parametrize("label", [0, 1])
def test_what_needs_both_classes_is_undefined_for_labels_of_one(label: int) -> None:
    totals = binary([0.1, 0.2], [label, label], replicates=4)
    undefined = {name for name, value in values(totals).items() if math.isnan(value)}
    assert undefined == {"auc", "pr_auc", "normalized_entropy"} | ({"calibration"} if label == 0 else set())
    assert totals.report()["mean_label"] == label


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("count", [binary, regression])
def test_scores_that_are_no_finite_numbers_are_counted_and_leave_nothing_defined(count: Any, bad: float) -> None:
    totals = count([0.1, bad, 0.3, 0.4], [0, 1, 1, 0], replicates=4)
    assert all(np.isnan(each).all() for each in totals.metrics().values())
    report = totals.report()
    assert (report["non_finite"], report["num_examples"], report["mean_label"]) == (0.25, 4, 0.5)
    assert math.isnan(report["mean_prediction"])
    assert totals.buckets() == []


@pytest.mark.parametrize("count", [binary, regression])
def test_labels_that_are_no_finite_numbers_leave_nothing_defined(count: Any) -> None:
    totals = count([0.1, 0.2, 0.3], [0, math.nan, 1], replicates=4)
    assert all(np.isnan(each).all() for each in totals.metrics().values())
    assert totals.report()["non_finite"] == 0


@pytest.mark.parametrize("count", [binary, regression])
def test_no_examples_are_no_error(count: Any) -> None:
    totals = count([], [], replicates=4)
    assert all(np.isnan(each).all() and len(each) == 5 for each in totals.metrics().values())
    assert totals.report()["num_examples"] == 0
    assert totals.buckets() == []


def test_regression_metrics_equal_those_of_scikit_learn_and_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(1)
    labels = np.round(random.normal(5, 2, 3_000), 1)
    scores = labels + random.normal(size=3_000)
    metrics = values(regression(scores, labels))
    assert metrics["rmse"] == pytest.approx(sklearn_metrics.mean_squared_error(labels, scores) ** 0.5)
    assert metrics["mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(labels, scores))
    assert metrics["calibration"] == pytest.approx(scores.sum() / labels.sum())
    assert metrics["rank_correlation"] == pytest.approx(stats.spearmanr(labels, scores)[0])


def test_regression_metrics_by_hand() -> None:
    metrics = values(regression([2.0, 1.0], [1.0, 4.0]))
    assert metrics == {"rmse": math.sqrt(5), "mae": 2.0, "calibration": 0.6, "rank_correlation": -1.0}


def test_a_replicate_equals_the_metrics_of_examples_repeated_by_their_weights() -> None:
    scores, labels = rare(1_500)
    scores = np.round(scores, 3).clip(0.001)
    drawn = weights(part(scores, labels).units, 20, seed=1)
    for count in (binary, regression):
        replicated = count(scores, labels, replicates=20).metrics()
        distances = []
        for replicate in (1, 7, 20):
            times = drawn[:, replicate]
            repeated = values(count(np.repeat(scores, times), np.repeat(labels, times)))
            found = {name: float(each[replicate]) for name, each in replicated.items()}
            # All replicates of this one are moved by their bias.
            distances.append(found.pop("calibration_error", 0.0) - repeated.pop("calibration_error", 0.0))
            assert found == pytest.approx(repeated, rel=1e-9)
        assert distances == pytest.approx([distances[0]] * 3, abs=1e-9)


def test_replicates_of_the_calibration_error_lie_around_it_though_repetition_is_noise() -> None:
    error = binary(*rare(20_000), replicates=100).metrics()["calibration_error"]
    assert error[1:].mean() == pytest.approx(error[0])
    assert error[1:].min() >= 0


def test_replicates_of_many_examples_equal_an_exact_bootstrap() -> None:
    scores, labels = rare(30_000)
    drawn = weights(part(scores, labels).units, 12, seed=1)
    totals = binary(scores, labels, replicates=12)
    assert totals.drawn.level > 0  # Buckets have been joined.
    metrics = totals.metrics()
    for replicate in range(1, 13):
        times = drawn[:, replicate]
        exact = sklearn_metrics.roc_auc_score(labels, scores, sample_weight=times)
        assert metrics["auc"][replicate] == pytest.approx(exact, abs=2e-5)  # A 200th of the standard error.
        exact = sklearn_metrics.average_precision_score(labels, scores, sample_weight=times)
        assert metrics["pr_auc"][replicate] == pytest.approx(exact, abs=1e-3)  # A tenth.


@pytest.mark.parametrize("count", [binary, regression])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_merged_totals_equal_the_totals_of_all_in_any_order(count: Any, order: tuple[int, ...]) -> None:
    scores, labels = rare(12_000)
    pieces = [count([], [], replicates=6) for _ in range(4)]
    edges = [0, 10, 5_000, 5_001, 12_000]
    for piece, start, end in zip(pieces, edges[:-1], edges[1:], strict=True):
        add(piece, part(scores[start:end], labels[start:end], first=start), 6)
    first, *others = (pieces[place] for place in order)
    for other in others:
        first.merge(other)
    whole = count(scores, labels, replicates=6)
    for name, each in whole.metrics().items():
        np.testing.assert_allclose(first.metrics()[name], each, rtol=1e-9, err_msg=name)
    assert first.report() == pytest.approx(whole.report())
    assert [list(bucket.values()) for bucket in first.buckets()] == [
        pytest.approx(list(bucket.values())) for bucket in whole.buckets()
    ]


def test_the_ranked_sample_is_bounded_the_same_in_any_order_and_near_the_whole() -> None:
    from sangam.components.steps.evaluator.metrics.totals_ranks import RankSample

    random = np.random.default_rng(1)
    labels = random.normal(size=9_000)
    scores = labels + random.normal(size=9_000)
    ids = mix64(np.arange(9_000, dtype=np.uint64))

    def sample(*places: slice) -> RankSample:
        result = RankSample(most=3_000)
        for place in places:
            other = RankSample(most=3_000)
            other.add(ids[place], ids[place], labels[place], scores[place])
            result.merge(other)
        return result

    one = sample(slice(0, 4_000), slice(4_000, 9_000))
    assert len(one.units) == 3_000
    other = sample(slice(6_000, 9_000), slice(0, 6_000))
    np.testing.assert_allclose(other.correlations(5, seed=1), one.correlations(5, seed=1), rtol=1e-9)
    whole = RankSample()
    whole.add(ids, ids, labels, scores)
    assert one.correlations(0, seed=1)[0] == pytest.approx(whole.correlations(0, seed=1)[0], abs=0.03)


def test_an_interval_covers_what_the_formula_of_hanley_and_mcneil_says() -> None:
    from sangam.components.steps.evaluator.metrics.bootstrap import interval

    random = np.random.default_rng(3)
    labels = (random.random(8_000) < 0.5).astype(float)
    scores = 1 / (1 + np.exp(-(labels + random.normal(size=8_000))))
    auc = binary(scores, labels, replicates=400).metrics()["auc"]
    positives, negatives, area = labels.sum(), (1 - labels).sum(), auc[0]
    both_above, both_below = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (positives - 1) * (both_above - area**2) + (negatives - 1) * (both_below - area**2)
    half = 1.96 * math.sqrt(variance / (positives * negatives))
    lower, upper = interval(auc[1:].tolist(), level=0.95)
    assert (upper - lower) / 2 == pytest.approx(half, rel=0.12)
    assert (upper + lower) / 2 == pytest.approx(area, abs=0.15 * half)
