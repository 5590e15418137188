"""What Beam keeps of a slice: the same however its parts are added and merged, and bounded."""

import itertools
import pickle

import numpy as np
import pytest

from components.steps.evaluator.metrics.block import Block, column, keys
from components.steps.evaluator.metrics.group_metrics import MeanSums
from components.steps.evaluator.metrics.tally import Result, Tally
from components.steps.evaluator.metrics.totals import Part
from components.steps.evaluator.metrics.totals_binary import BinaryTotals
from schemas.splitmix64 import mix64

pyarrow = pytest.importorskip("pyarrow")
NUM_ROWS = 150_000
"""More than may wait to be counted, twice over."""


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    random = np.random.default_rng(1)
    scores = random.random(NUM_ROWS)
    ids = mix64(np.arange(NUM_ROWS, dtype=np.uint64))
    labels = (random.random(NUM_ROWS) < scores).astype(float)
    whole = Part(ids, ids, labels, scores)
    edges = [0, 3, 40_000, 40_100, 110_000, NUM_ROWS]
    return [whole.where(slice(start, end)) for start, end in itertools.pairwise(edges)]


def tally(parts: list[Part]) -> Tally:
    result = Tally(BinaryTotals, replicates=5, seed=1)
    for part in parts:
        result.add(part)
    return result


def check_equal(first: Result, second: Result) -> None:
    assert first.metrics.keys() == second.metrics.keys()
    for name, values in first.metrics.items():
        np.testing.assert_allclose(values, second.metrics[name], rtol=1e-9, err_msg=name)
    assert first.report == pytest.approx(second.report)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
def test_tallies_merge_in_any_order_before_and_after_they_have_been_counted(
    parts: list[Part], order: tuple[int, ...]
) -> None:
    whole = tally(parts).result(least_examples=1)
    merged = tally([])
    for place in order:
        other = tally([parts[place]])
        other.compact()
        merged.merge(pickle.loads(pickle.dumps(other)))  # As Beam moves it.
    check_equal(merged.result(least_examples=1), whole)
    assert whole.report["num_examples"] == NUM_ROWS


def test_what_is_kept_is_bounded(parts: list[Part]) -> None:
    many = tally(parts * 4)
    many.compact()
    few = tally(parts)
    few.compact()
    assert len(pickle.dumps(many)) < 1.5 * len(pickle.dumps(few)) + 4_000_000


def test_fewer_examples_than_asked_for_have_metrics_but_no_replicates(parts: list[Part]) -> None:
    assert len(tally(parts[2:3]).result(least_examples=100).metrics["auc"]) == 6
    assert len(tally(parts[2:3]).result(least_examples=101).metrics["auc"]) == 1


def test_sums_over_groups_are_added_and_counted_and_undefined_with_the_rest(parts: list[Part]) -> None:
    sums = MeanSums(parts=np.full(6, 3.0), wholes=np.full(6, 4.0), counted=4, skipped=1)
    both = tally([parts[1]])
    both.add({"gauc": sums})
    other = tally([])
    other.add({"gauc": sums})
    both.merge(other)
    result = both.result(least_examples=1)
    assert result.metrics["gauc"].tolist() == [0.75] * 6
    assert (result.report["num_groups"], result.report["num_groups_skipped"]) == (8, 2)
    bad = parts[0]
    both.add(Part(bad.ids, bad.units, bad.labels, bad.scores * np.nan))
    assert np.isnan(both.result(least_examples=1).metrics["gauc"]).all()


def test_a_column_gives_the_first_value_of_each_example_and_none_where_there_is_no_value() -> None:
    batch = pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([[1], [], None, [2, 3]]), pyarrow.array([[b"a"], [b"b"], [b"c"], [b"d"]])], ["id", "text"]
    )
    assert column(batch, "id") == [1, None, None, 2]
    assert column(batch, "text") == [b"a", b"b", b"c", b"d"]
    assert column(batch, "other") == [None] * 4


def test_keys_of_equal_values_are_equal_and_of_missing_ones_zero() -> None:
    first, second, missing, again = keys([17, 18, None, 17]).tolist()
    assert first == again != second
    assert missing == 0
    assert keys([b"17"]).tolist() == [first]


def test_of_a_masked_task_those_who_take_no_part_are_left_out_unless_their_score_is_no_number() -> None:
    ids = np.arange(4, dtype=np.uint64)
    labels = np.array([1.0, np.nan, 0.0, np.nan])
    block = Block(
        ids=ids,
        units=ids,
        groups={},
        labels={"buy": labels, "like": labels},
        scores={("", task): np.array([0.5, 0.25, 0.125, np.inf]) for task in ("buy", "like")},
        masked=frozenset({"buy"}),
    )
    assert block.part(("", "buy")).ids.tolist() == [0, 2, 3]
    assert block.where(np.array([0, 1])).part(("", "buy")).ids.tolist() == [0]
    assert len(block.part(("", "like"))) == 4


def test_a_task_in_which_no_example_takes_part_has_a_count_and_no_metric() -> None:
    none = np.zeros(0)
    result = tally([Part(none.astype(np.uint64), none.astype(np.uint64), none, none)]).result(least_examples=1)
    assert result.report["num_examples"] == 0
    assert all(np.isnan(values).all() for values in result.metrics.values())
