"""The metric against the precision-recall curve of scikit-learn."""

import numpy as np
import pytest
from sangam_example_parts import RecallAtPrecision
from sklearn.metrics import precision_recall_curve

from sangam.testing import check_part

PART = RecallAtPrecision(kind="recall_at_precision", precision=0.6, bins=50)


def sample(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and predictions whose logits are the middles of bins, so that no threshold is lost."""
    generator = np.random.default_rng(seed)
    logits = np.clip(np.round(generator.normal(-1, 2, size=size) / 0.4), -20, 20) * 0.4 + 0.2
    predictions = 1 / (1 + np.exp(-logits))
    return (generator.random(size) < predictions).astype(float), predictions


def expected(labels: np.ndarray, predictions: np.ndarray) -> float:
    precisions, recalls, _ = precision_recall_curve(labels, predictions)
    return float(recalls[precisions >= PART.precision].max())


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_largest_recall_that_the_curve_has_at_the_precision(seed: int) -> None:
    labels, predictions = sample(300, seed)
    assert PART.value(PART.sums(labels, predictions).sum(0)) == pytest.approx(expected(labels, predictions))


def test_weights_count_as_repeated_examples() -> None:
    labels, predictions = sample(200, 9)
    weights = np.random.default_rng(9).integers(0, 4, size=200)
    weighted = (PART.sums(labels, predictions) * weights[:, None]).sum(0)
    assert PART.value(weighted) == pytest.approx(expected(np.repeat(labels, weights), np.repeat(predictions, weights)))


def test_several_sums_at_once_give_the_value_of_each() -> None:
    totals = np.stack([PART.sums(*sample(100, seed)).sum(0) for seed in range(3)])
    np.testing.assert_array_equal(PART.value(totals), [PART.value(each) for each in totals])


@pytest.mark.parametrize(
    ("labels", "predictions", "value"),
    [([1, 0], [1.0, 0.0], 1.0), ([0, 1], [1.0, 0.0], 0.0), ([0, 0], [0.4, 0.6], None), ([1, 0, 0], [0.5] * 3, 0.0)],
)
def test_ends(labels: list[int], predictions: list[float], value: float | None) -> None:
    with np.errstate(invalid="ignore"):
        found = PART.value(PART.sums(np.array(labels, float), np.array(predictions)).sum(0))
    assert np.isnan(found) if value is None else found == value


def test_it_holds_what_every_metric_promises() -> None:
    check_part(PART)
