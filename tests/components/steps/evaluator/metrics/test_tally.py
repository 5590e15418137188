"""What Beam keeps of a slice: the same however its parts are added and merged, and bounded."""

import itertools
import pickle

import numpy as np
import pytest

from sangam.components.steps.evaluator.metrics.block import Block
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.group_metrics import MeanSums
from sangam.components.steps.evaluator.metrics.tally import Measures, Result, Tally, new_totals
from sangam.schemas.host.splitmix64 import mix64

NUM_ROWS = 150_000
"""More than may wait to be counted, twice over."""
LIKE = ("candidate", "like")
MEASURES = Measures({LIKE: new_totals("binary", is_weighted=False)}, replicates=5, seed=1)


def block(ids: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> Block:
    return Block(ids, ids, {}, {"like": labels}, {LIKE: scores})


@pytest.fixture(scope="module")
def blocks() -> list[Block]:
    random = np.random.default_rng(1)
    scores = random.random(NUM_ROWS).astype(np.float32)
    ids = mix64(np.arange(NUM_ROWS, dtype=np.uint64))
    whole = block(ids, (random.random(NUM_ROWS) < scores).astype(float), scores)
    edges = [0, 3, 40_000, 40_100, 110_000, NUM_ROWS]
    return [whole.where(slice(start, end)) for start, end in itertools.pairwise(edges)]


def tally(blocks: list[Block]) -> Tally:
    result = Tally(MEASURES)
    for each in blocks:
        result.add(each)
    return result


def result(tally: Tally, least_examples: int = 1) -> Result:
    return tally.result(least_examples)[LIKE]


def check_equal(first: Result, second: Result) -> None:
    assert first.metrics.keys() == second.metrics.keys()
    for name, values in first.metrics.items():
        np.testing.assert_allclose(values, second.metrics[name], rtol=1e-9, err_msg=name)
    assert first.report == pytest.approx(second.report)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
def test_tallies_merge_in_any_order_before_and_after_they_have_been_counted(
    blocks: list[Block], order: tuple[int, ...]
) -> None:
    whole = result(tally(blocks))
    merged = tally([])
    for place in order:
        other = tally([blocks[place]])
        other.compact()
        merged.merge(pickle.loads(pickle.dumps(other)))  # As Beam moves it.
    check_equal(result(merged), whole)
    assert whole.report["num_examples"] == NUM_ROWS


def test_examples_counted_at_once_equal_those_that_wait(blocks: list[Block]) -> None:
    at_once = tally([])
    for each in blocks:
        at_once.add(each, Draws.of(each.units, 5, seed=1))
    check_equal(result(at_once), result(tally(blocks)))


def test_what_is_kept_is_bounded(blocks: list[Block]) -> None:
    many = tally(blocks * 4)
    many.compact()
    few = tally(blocks)
    few.compact()
    assert len(pickle.dumps(many)) < 1.5 * len(pickle.dumps(few)) + 4_000_000


@pytest.mark.parametrize("is_counted", [False, True])
def test_fewer_examples_than_asked_for_have_metrics_but_no_replicates(blocks: list[Block], is_counted: bool) -> None:
    def found(least_examples: int) -> int:
        few = tally([])
        few.add(blocks[2], Draws.of(blocks[2].units, 5, seed=1) if is_counted else None)
        return len(result(few, least_examples).metrics["auc"])

    assert found(100) == 6
    assert found(101) == 1


def test_sums_over_groups_are_added_and_counted_and_undefined_with_the_rest(blocks: list[Block]) -> None:
    sums = {LIKE: {"gauc": MeanSums(parts=np.full(6, 3.0), wholes=np.full(6, 4.0), counted=4, skipped=1)}}
    both = tally([blocks[1]])
    both.add_means(sums)
    other = tally([])
    other.add_means(sums)
    both.merge(other)
    found = result(both)
    assert found.metrics["gauc"].tolist() == [0.75] * 6
    assert (found.report["num_groups"], found.report["num_groups_skipped"]) == (8, 2)
    bad = blocks[0]
    both.add(block(bad.ids, bad.labels["like"], bad.scores[LIKE] * np.nan))
    assert np.isnan(result(both).metrics["gauc"]).all()


def test_of_a_masked_task_those_who_take_no_part_are_left_out_unless_their_score_is_no_number() -> None:
    ids = np.arange(4, dtype=np.uint64)
    labels = np.array([1.0, np.nan, 0.0, np.nan])
    few = Block(
        ids=ids,
        units=ids,
        groups={},
        labels={"buy": labels, "like": labels},
        scores={("", task): np.array([0.5, 0.25, 0.125, np.inf]) for task in ("buy", "like")},
        masked=frozenset({"buy"}),
    )
    assert few.part(("", "buy")).ids.tolist() == [0, 2, 3]
    assert few.where(np.array([0, 1])).part(("", "buy")).ids.tolist() == [0]
    assert len(few.part(("", "like"))) == 4


def test_a_task_in_which_no_example_takes_part_has_a_count_and_no_metric() -> None:
    none = np.zeros(0)
    found = result(tally([block(none.astype(np.uint64), none, none)]))
    assert found.report["num_examples"] == 0
    assert all(np.isnan(values).all() for values in found.metrics.values())
