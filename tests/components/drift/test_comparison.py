"""Counting what is served gives the distances of the rows themselves."""

import time
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from sangam.components.drift.comparison import MOST_ROWS, Comparison
from sangam.components.drift.watching import LAST, RUNNING, Counted, DriftWatch, added, unpacked
from sangam.schemas.contracts.drift_reference import DriftReference, read_reference
from sangam.schemas.errors import UserError
from tests.components.server.sample_columns import COLUMNS
from tests.errors import place_and_value

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow_metadata")

HOUR_S = 3600
SCORES = np.arange(64) / 64


@pytest.fixture(scope="module")
def reference() -> DriftReference:
    from tests.components.drift.sample_statistics import sample_reference

    return sample_reference({"like": SCORES})


@pytest.fixture(scope="module")
def comparison(reference: DriftReference) -> Comparison:
    return Comparison(7, COLUMNS, reference)


@pytest.fixture
def inputs() -> dict[str, Any]:
    from tests.components.drift.sample_statistics import requests

    return requests()


def found(comparison: Comparison, inputs: dict[str, Any], scores: Any = SCORES) -> Any:
    return comparison.drift(comparison.counts(inputs, 64, {"like": scores.reshape(-1, 1)}))


def test_the_training_s_own_rows_have_no_distance(comparison: Comparison, inputs: dict[str, Any]) -> None:
    drift = found(comparison, inputs)
    assert drift.rows == 64
    distances = {
        (name, measure): value for name, each in drift.columns.items() for measure, value in each.distances.items()
    }
    assert distances.keys() == {
        *((name, "missing_share") for name in COLUMNS),
        *((name, measure) for name in ("user", "post id", "topics") for measure in ("l_infinity", "rest_share")),
        ("price", "jensen_shannon"),
        ("topics", "lengths"),
    }
    assert max(distances.values()) < 1e-9
    assert drift.scores["like"] < 1e-9
    assert (drift.columns["price"].missing, drift.columns["topics"].missing) == (4 / 64, 16 / 64)


def test_each_change_moves_its_own_column_by_what_numpy_says(
    comparison: Comparison, reference: DriftReference, inputs: dict[str, Any]
) -> None:
    price = inputs["price"] * 2
    posts = np.where(np.arange(64) % 2, b"new", inputs["post"])
    lengths = np.where(np.arange(64) < 32, 0, inputs["topics_length"])
    drift = found(comparison, inputs | {"price": price, "post": posts, "topics_length": lengths}, SCORES / 2)
    assert {name: each.over for name, each in drift.columns.items()} == {
        "user": [],
        "post id": ["l_infinity"],
        "price": ["jensen_shannon"],
        "topics": ["missing_share"],
    }
    # Every second row has the new post: it is more than any post of the training has lost.
    assert drift.columns["post id"].distances["l_infinity"] == pytest.approx(0.5)
    assert drift.columns["post id"].distances["rest_share"] == pytest.approx(0.5)
    assert drift.columns["topics"].missing == pytest.approx((lengths == 0).mean())
    trained = inputs["price"][np.isfinite(inputs["price"])]
    now = price[np.isfinite(price)]
    assert reference.columns["price"].numbers is not None
    cuts = reference.columns["price"].numbers.cuts
    assert len(cuts) == 19
    p, q = (np.histogram(-each, [-np.inf, *(-cut for cut in cuts[::-1]), np.inf])[0] for each in (trained, now))
    expected = jensenshannon(p, q, base=2) ** 2
    assert drift.columns["price"].distances["jensen_shannon"] == pytest.approx(expected, abs=1e-9)
    assert drift.scores["like"] > 0.1


def test_many_values_that_training_had_not_are_rest_and_none_of_them_is_large(
    comparison: Comparison, inputs: dict[str, Any]
) -> None:
    counts = sum(
        comparison.counts(inputs | {"post": np.array([b"%d-%d" % (turn, row) for row in range(64)], object)}, 64, {})
        for turn in range(64)
    )
    column = comparison.drift(counts).columns["post id"]
    assert column.distances["rest_share"] == pytest.approx(1.0)
    assert column.distances["l_infinity"] == pytest.approx(1 / 16, abs=0.01)  # Of a post that is no longer served.


def test_a_single_row_of_an_input_stands_for_all(comparison: Comparison, inputs: dict[str, Any]) -> None:
    single = {
        "user": inputs["user"][:1],
        "topics": inputs["topics"][3:4],
        "topics_length": inputs["topics_length"][3:4],
    }
    repeated = {name: np.repeat(value, 64, axis=0) for name, value in single.items()}
    one, all_ = (comparison.counts(inputs | each, 64, {}) for each in (single, repeated))
    np.testing.assert_array_equal(one, all_)


def test_of_many_candidates_some_are_counted(comparison: Comparison, inputs: dict[str, Any]) -> None:
    many = {name: np.repeat(value, 10, axis=0) for name, value in inputs.items()}
    drift = comparison.drift(comparison.counts(many, 640, {"like": np.repeat(SCORES, 10)}))
    assert drift.rows == MOST_ROWS
    assert drift.columns["user"].distances["l_infinity"] < 0.05


def test_what_a_file_holds_is_refused_when_it_is_no_reference(reference: DriftReference) -> None:
    assert read_reference("f", reference.text().encode()) == reference
    assert b"p1" not in reference.text().encode()
    for content in (b"{}", reference.text().replace('"cuts":[', '"cuts":[1e9,').encode(), b"["):
        with pytest.raises(UserError, match=place_and_value("f", "got")):
            read_reference("f", content)


class Watched:
    """A watch whose clock and served version are told."""

    def __init__(self, comparison: Comparison):
        self.served: Comparison | None = comparison
        self.at_s = 10.5 * HOUR_S
        self.watch = DriftWatch(lambda: self.served, lambda: self.at_s)

    def ask(self, comparison: Comparison, inputs: Any) -> None:
        """Offers a request, and waits until it is counted or left out."""
        self.watch.offer(comparison, "rank", inputs, 64, {"like": SCORES})
        deadline = time.monotonic() + 60
        while self.watch.is_waiting():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def rows(self) -> dict[str, int]:
        counted = self.watch.counted()
        assert self.served is not None
        assert counted is not None
        return {name: int(counted.of(self.served, hour)[0]) for name, hour in self.watch.now().items()}


def test_hours_and_versions_begin_anew(reference: DriftReference, inputs: dict[str, Any]) -> None:
    first, second = (Comparison(version, COLUMNS, reference) for version in (1, 2))
    watched = Watched(first)
    try:
        watched.ask(first, inputs)
        watched.ask(first, inputs)
        assert watched.rows() == {RUNNING: 128, LAST: 0}
        watched.at_s += HOUR_S
        assert watched.rows() == {RUNNING: 0, LAST: 128}
        watched.ask(first, inputs)
        assert watched.rows() == {RUNNING: 64, LAST: 128}
        watched.at_s += HOUR_S
        assert watched.rows() == {RUNNING: 0, LAST: 64}
        watched.served = second
        assert watched.rows() == {RUNNING: 0, LAST: 0}
        watched.ask(first, inputs)  # Answered by the version before, and ends later.
        assert watched.rows() == {RUNNING: 0, LAST: 0}
        watched.ask(second, inputs)
        assert watched.rows() == {RUNNING: 64, LAST: 0}
        watched.watch.offer(second, "upsert", inputs, 64, {})
        watched.watch.offer(None, "rank", inputs, 64, {})
        assert not watched.watch.is_waiting()
    finally:
        watched.watch.stop()


def test_what_processes_have_counted_adds_up_by_version_and_hour(
    comparison: Comparison, inputs: dict[str, Any]
) -> None:
    counts = comparison.counts(inputs, 64, {"like": SCORES})
    parts = [
        Counted(7, {10: counts, 11: 2 * counts}),
        Counted(7, {11: counts}),
        Counted(6, {11: counts}),
        Counted(7, {}),
    ]
    total = added(comparison, [unpacked(part.packed()) for part in parts])
    assert total.hours.keys() == {10, 11}
    np.testing.assert_array_equal(total.hours[11], 3 * counts)
    np.testing.assert_array_equal(total.hours[10], counts)
    with pytest.raises(ValueError, match="buffer size"):
        unpacked(parts[0].packed()[:-3])
