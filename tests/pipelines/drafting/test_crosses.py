"""An item and its price, and a user and an item, get a row for each pair."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.pipelines import drafting
from sangam.pipelines.drafting.sample import read_sample
from tests.errors import mentions
from tests.pipelines.drafting.sample_logs import CLICKED, EVENT_TIME, RNG, ROWS, ROWS_OF_DAY, USERS, drafted, valid

ITEMS = RNG.integers(0, 40, ROWS)
PRICES = 5.0 + ITEMS + RNG.integers(0, 3, ROWS)


def _bought_before() -> list[int]:
    """Returns whether an earlier day has the row's user and item."""
    first: dict[tuple[str, int], int] = {}
    days = [row // ROWS_OF_DAY for row in range(ROWS)]
    pairs = list(zip(USERS, ITEMS.tolist(), strict=True))
    return [int(first.setdefault(pair, day) < day) for pair, day in zip(pairs, days, strict=True)]


REORDERED = np.array(_bought_before())


def test_an_item_and_its_price_have_a_row_for_each_pair(tmp_path: Path) -> None:
    document, made = drafted(tmp_path, {"item_id": ITEMS, "unit_price": PRICES, "clicked": CLICKED})
    assert document["features"]["item_and_unit_price"] == {
        "kind": "cross",
        "columns": {"item_id": "int", "unit_price": "float"},
        "table": "item_and_unit_price",
    }
    assert document["tables"]["item_and_unit_price"] == {"dim": 8}
    assert "120 pairs in the sample" in made.text


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"item_id": ITEMS, "price": 5.0 + ITEMS}, id="one price of each item"),
        pytest.param({"item_id": ITEMS, "price": RNG.random(ROWS)}, id="pairs that do not return"),
        pytest.param({"item_id": ITEMS, "weight": PRICES}, id="not named as a price"),
        pytest.param({"city": [f"c{each}" for each in ITEMS], "price": PRICES}, id="no item"),
    ],
)
def test_other_pairs_have_no_rows(tmp_path: Path, columns: dict[str, Any]) -> None:
    document, _ = drafted(tmp_path, columns | {"clicked": CLICKED})
    assert "cross" not in [feature["kind"] for feature in document["features"].values()]


def test_a_user_and_an_item_have_a_small_row_for_each_pair_and_one_pass(tmp_path: Path) -> None:
    logs = {"event_time": EVENT_TIME, "item_id": ITEMS, "brand_id": ITEMS // 4, "reorder": REORDERED}
    document, made = drafted(tmp_path, logs)
    columns = {"user_id": "string", "item_id": "int"}
    assert document["features"]["user_and_item"] == {"kind": "cross", "columns": columns, "table": "user_and_item"}
    assert document["features"]["user_and_item_before"] == {"kind": "count", "by": columns, "log": True}
    assert document["tables"]["user_and_item"]["optimizer"] == {"kind": "rowwise_adagrad", "learning_rate": 0.3}
    assert document["training"]["epochs"] == 1
    assert mentions(made.text, f"{REORDERED[-ROWS_OF_DAY:].mean():.1%} ... reorder (AUC 1.00)")
    text = made.text.replace("# event_time:", "event_time:") + "online: {}\n"
    assert valid(dataclasses.replace(made, text=text))["event_time"] == "event_time"


def test_pairs_of_a_sample_are_looked_for_in_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "read_sample", partial(read_sample, max_rows=800))
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "reorder": REORDERED})
    assert "user_and_item" in document["features"]


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"item_id": ITEMS, "clicked": CLICKED}, id="tells no label"),
        pytest.param({"item_id": np.arange(ROWS) % ROWS_OF_DAY, "reorder": REORDERED}, id="does not return"),
        pytest.param({"town_id": ITEMS, "reorder": REORDERED}, id="no item"),
    ],
)
def test_other_pairs_with_a_user_have_no_rows(tmp_path: Path, columns: dict[str, Any]) -> None:
    document, _ = drafted(tmp_path, columns)
    assert not {"cross", "count"} & {feature["kind"] for feature in document["features"].values()}


def test_pairs_may_be_missing_where_their_columns_may(tmp_path: Path) -> None:
    prices = np.where(RNG.random(ROWS) < 0.1, np.nan, PRICES)
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "price": prices, "clicked": CLICKED})
    assert document["features"]["item_and_price"]["missing_row"]


def test_sampled_items_have_no_price_of_their_own(tmp_path: Path) -> None:
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "price": PRICES})
    assert "cross" not in [feature["kind"] for feature in document["features"].values()]
