"""An item and its price get a row for each pair."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.drafting.sample_logs import CLICKED, RNG, ROWS, drafted

ITEMS = RNG.integers(0, 40, ROWS)
PRICES = 5.0 + ITEMS + RNG.integers(0, 3, ROWS)


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


def test_pairs_may_be_missing_where_their_columns_may(tmp_path: Path) -> None:
    prices = np.where(RNG.random(ROWS) < 0.1, np.nan, PRICES)
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "price": prices, "clicked": CLICKED})
    assert document["features"]["item_and_price"]["missing_row"]


def test_sampled_items_have_no_price_of_their_own(tmp_path: Path) -> None:
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "price": PRICES})
    assert "cross" not in [feature["kind"] for feature in document["features"].values()]
