"""Draws of candidates: which may be drawn, how often, and that files and order change nothing."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.logs.negatives.catalog import (
    Candidates,
    Catalog,
    candidates_of,
    distinct,
    keys_of,
    newest,
)
from sangam.components.logs.negatives.drawing import Numbers, drawer, identities
from sangam.schemas.parts.importing import import_part
from sangam.schemas.parts.judging import NegativeSampler
from sangam.schemas.parts.kinds import is_ours, kinds_of
from sangam.schemas.spec.negatives import Negatives

import_part("tests.components.sample_parts")

Rows = list[tuple[Any, Any, str, int, float]]
"""User, item, country, time and price of each row."""


TEMPERED = {"kind": "tempered", "power": 0.5, "never": 7}
"""A sampler of others; the product's are in proportion to the positives, and all alike."""


def settings(**changes: Any) -> Negatives:
    return Negatives.model_validate(
        {"label": "bought", "item": "item", "user": "user", "item_columns": ("price",)} | changes
    )


def batch(rows: Rows) -> pa.RecordBatch:
    """Returns converted rows: every column has lists of at most one value."""
    kinds = {"user": pa.binary(), "item": pa.int64(), "country": pa.binary(), "at": pa.int64(), "price": pa.float32()}
    columns = list(zip(*rows, strict=True))
    lists = [
        pa.array([None if value is None else [value] for value in column], pa.list_(kind))
        for column, kind in zip(columns, kinds.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(lists, list(kinds))


def drawn(
    rows: Rows, numbers: Numbers, negatives: Negatives | None = None, of: Rows | None = None, day: str = "2024-03-01"
) -> dict[tuple[bytes, int], list[tuple[int, float]]]:
    """Returns the items and prices drawn for each user and item, from candidates of the same or of other rows."""
    negatives = negatives or settings()
    catalog = Catalog(candidates_of(batch(of or rows), negatives, "at"))
    keys = keys_of(batch(rows), negatives, "at")
    found = drawer(negatives.draw, catalog, "item")(keys, identities(keys, negatives.seed, day), numbers)
    items = [value[0] for value in catalog.values("item").take(pa.array(found.places)).to_pylist()]
    prices = [value[0] for value in catalog.values("price").take(pa.array(found.places)).to_pylist()]
    by_row: dict[tuple[bytes, int], list[tuple[int, float]]] = {(row[0], row[1]): [] for row in rows}
    for row, item, price in zip(found.rows.tolist(), items, prices, strict=True):
        by_row[rows[row][0], rows[row][1]].append((item, price))
    return by_row


def log(num_users: int = 40, num_items: int = 30, seed: int = 1) -> Rows:
    random = np.random.default_rng(seed)
    return [
        (f"u{user}".encode(), int(item), ["IN", "DE"][user % 2], 100 * user + place, float(item) + place / 8)
        for user in range(num_users)
        for place, item in enumerate(random.choice(num_items, 3, replace=False))
    ]


@pytest.mark.parametrize("how", ["uniform", "popular", TEMPERED])
@pytest.mark.parametrize("num_items", [8, 30, 1000])  # Listed, listed, and tried.
def test_no_item_of_the_user_is_drawn_and_uniform_draws_are_distinct(how: Any, num_items: int) -> None:
    rows = log(num_users=600, num_items=num_items)
    of_user: dict[bytes, set[int]] = {}
    for user, item, *_ in rows:
        of_user.setdefault(user, set()).add(item)
    for (user, _), items in drawn(rows, Numbers(5, 5), settings(draw=how)).items():
        found = [item for item, _ in items]
        assert len(found) == 5
        assert not of_user[user] & set(found)
        assert how != "uniform" or len(set(found)) == 5


@pytest.mark.parametrize("how", ["uniform", "popular", TEMPERED])
def test_order_and_files_of_the_rows_change_no_draw_and_the_seed_and_the_day_do(how: Any) -> None:
    rows, negatives = log(), settings(draw=how)
    first = drawn(rows, Numbers(3, 6), negatives)
    turned = drawn(rows[::-1], Numbers(3, 6), negatives)
    assert first == turned
    parts = [candidates_of(batch(part), negatives, "at") for part in (rows[70:], rows[:20], rows[20:70])]
    whole = candidates_of(batch(rows), negatives, "at")
    assert newest([part.items for part in parts]).equals(whole.items)
    assert distinct([part.pairs for part in parts]).equals(whole.pairs)
    assert drawn(rows, Numbers(3, 6), negatives.model_copy(update={"seed": 2})) != first
    assert drawn(rows, Numbers(3, 6), negatives, day="2024-03-02") != first


def test_all_candidates_are_drawn_where_there_are_fewer_than_asked_for_and_a_share_of_them_in_training() -> None:
    rows = log(num_users=400, num_items=23)
    judged = drawn(rows, Numbers(50, 50))
    assert {len(items) for items in judged.values()} == {20}
    assert {item for item, _ in judged[rows[0][:2]]} == set(range(23)) - {row[1] for row in rows[:3]}
    sizes = [len(items) for items in drawn(rows, Numbers(4, 50)).values()]
    # 4 of 50 candidates are 1.6 of 20: one or two of them, at random.
    assert set(sizes) == {1, 2}
    assert np.mean(sizes) == pytest.approx(1.6, abs=4 * 0.49 / np.sqrt(len(sizes)))


@pytest.mark.parametrize("num_items", [40, 400])
def test_uniform_draws_are_uniform_and_popular_ones_in_proportion_to_positives(num_items: int) -> None:
    random = np.random.default_rng(3)
    # The second half of the items has three times the positives of the first.
    items = np.concatenate([random.permutation(num_items), *[random.permutation(num_items // 2)] * 2])
    items = np.where(np.arange(len(items)) < num_items, items, items + num_items // 2)
    rows: Rows = [(f"u{place}".encode(), int(item), "IN", place, 1.0) for place, item in enumerate(items)]
    rows += [(f"v{place}".encode(), int(item), "IN", place, 1.0) for place, item in enumerate(items)]
    for how, share in (("uniform", 0.5), ("popular", 0.75)):
        found = drawn(rows, Numbers(4, 4), settings(draw=how))
        counts = np.bincount([item for each in found.values() for item, _ in each], minlength=num_items)
        error = 4 * np.sqrt(share * (1 - share) / counts.sum())
        assert counts[num_items // 2 :].sum() / counts.sum() == pytest.approx(share, abs=error + 2 / num_items**2)
        assert counts.min() > 0


def test_draws_of_others_are_in_proportion_to_their_weights_and_never_of_weight_0() -> None:
    rows: Rows = [(f"u{user}".encode(), [1, 2, 2, 2, 2, 7][user % 6], "IN", user, 1.0) for user in range(600)]
    asker: Rows = [(f"v{user}".encode(), 9, "IN", user, 1.0) for user in range(4_000)]
    items = [
        item for found in drawn(asker, Numbers(4, 4), settings(draw=TEMPERED), of=rows).values() for item, _ in found
    ]
    assert len(items) == 16_000
    assert set(items) == {1, 2}
    # 100 and 400 positives: roots of 10 and 20.
    assert items.count(2) / len(items) == pytest.approx(2 / 3, abs=0.012)


def test_a_group_without_a_weight_has_no_candidates() -> None:
    rows: Rows = [(b"a", 7, "IN", 1, 1.0), (b"b", 7, "IN", 2, 1.0), (b"c", 1, "DE", 3, 1.0)]
    asker: Rows = [(b"x", 2, "IN", 4, 1.0), (b"y", 2, "DE", 5, 1.0)]
    found = drawn(asker, Numbers(2, 2), settings(draw=TEMPERED, within=("country",)), of=rows)
    assert found == {(b"x", 2): [], (b"y", 2): [(1, 1.0), (1, 1.0)]}


def test_every_sampler_of_the_product_has_its_draws() -> None:
    ours = [kind for kind in kinds_of(NegativeSampler).values() if is_ours(kind)]
    assert len(ours) == 2
    assert all(drawer.dispatch(kind) is not drawer.dispatch(NegativeSampler) for kind in ours)


def test_candidates_share_the_columns_within_and_have_the_newest_row_of_their_item_there() -> None:
    rows: Rows = [
        (b"a", 1, "IN", 10, 1.0),
        (b"b", 2, "IN", 30, 2.5),
        (b"c", 2, "IN", 20, 2.0),
        (b"d", 2, "DE", 90, 9.0),
        (b"e", 3, "DE", 40, 3.0),
    ]
    found = drawn(rows, Numbers(3, 3), settings(within=("country",)))
    assert found[b"a", 1] == [(2, 2.5)]
    assert found[b"d", 2] == [(3, 3.0)]
    assert found[b"e", 3] == [(2, 9.0)]
    assert sorted(drawn(rows, Numbers(3, 3))[b"a", 1]) == [(2, 9.0), (3, 3.0)]


def test_a_positive_without_candidates_is_counted_and_has_no_rows() -> None:
    rows: Rows = [(b"a", 1, "IN", 10, 1.0), (b"a", 2, "IN", 11, 1.0), (b"b", 1, "DE", 12, 1.0)]
    for how in ("uniform", "popular", TEMPERED):
        negatives = settings(draw=how)
        catalog = Catalog(candidates_of(batch(rows), negatives, "at"))
        keys = keys_of(batch(rows), negatives, "at")
        found = drawer(negatives.draw, catalog, "item")(keys, identities(keys, 1, ""), Numbers(2, 2))
        assert found.num_without == 2
        assert set(found.rows.tolist()) == {2}


def test_rows_without_a_user_or_an_item_give_no_candidates() -> None:
    rows: Rows = [(None, 1, "IN", 10, 1.0), (b"a", None, "IN", 11, 1.0), (b"b", 3, "IN", None, 3.0)]  # type: ignore[list-item]
    found: Candidates = candidates_of(batch(rows), settings(), "at")
    assert (found.items.num_rows, found.pairs.num_rows) == (1, 1)


@pytest.mark.slow
def test_the_corrected_logits_of_a_regression_on_the_train_split_are_those_of_the_judged_split() -> None:
    random = np.random.default_rng(5)
    # Users of two kinds prefer items by different weights; every draw of a user is a day's purchase.
    num_items, wanted, judged = 60, 3, 30
    taste = np.exp(random.normal(0, 1, (2, num_items)))
    bought = [random.choice(num_items, 6_000, p=of_kind / of_kind.sum()) for of_kind in taste]
    rows: Rows = [(f"u{user}".encode(), int(bought[user % 2][user // 2]), "IN", user, 1.0) for user in range(12_000)]
    for how in ("uniform", "popular", TEMPERED):
        counts = {}
        for name, numbers in (("train", Numbers(wanted, judged)), ("judged", Numbers(judged, judged))):
            table = np.zeros((2, num_items, 2))
            for (user, item), items in drawn(rows, numbers, settings(draw=how)).items():
                kind = int(user[1:]) % 2
                table[kind, item, 1] += 1
                np.add.at(table[kind, :, 0], [each for each, _ in items], 1)
            counts[name] = table
        # What a logistic regression with a weight for each kind of user and item learns: its maximum of likelihood.
        logit = np.log(counts["train"][..., 1] / counts["train"][..., 0]) + np.log(wanted / judged)
        rates = counts["judged"][..., 1] / counts["judged"].sum(axis=-1)
        sizes = counts["judged"].sum(axis=-1)
        predicted = (sizes / (1 + np.exp(-logit))).sum() / sizes.sum()
        assert predicted == pytest.approx(1 / (judged + 1), rel=0.01)
        enough = counts["judged"][..., 1] > 200
        assert enough.sum() > 10
        np.testing.assert_allclose((1 / (1 + np.exp(-logit)))[enough], rates[enough], rtol=0.12)
        # Without the correction the rates are some ten times too high.
        assert (1 / (1 + np.exp(-logit) * wanted / judged))[enough].mean() > 3 * rates[enough].mean()
