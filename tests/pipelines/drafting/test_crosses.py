"""An item and its price get a row for each pair; what rates of users and items change in a draft."""

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


def test_the_crosses_of_many_inputs_are_of_low_rank(tmp_path: Path) -> None:
    numbers = {f"x{place}": RNG.random(ROWS) for place in range(70)}
    numbers["item_click_rate"] = RNG.random(ROWS)
    document, _ = drafted(tmp_path, numbers | {"item_id": ITEMS, "clicked": CLICKED})
    assert document["model"]["interaction"] == {"kind": "dcn_v2", "num_layers": 2, "rank": 64}


def test_beside_rates_of_items_rows_move_little_and_layers_cross(tmp_path: Path) -> None:
    rates = {"item_click_rate": RNG.random(ROWS)}
    with_rates, _ = drafted(tmp_path / "with", {"item_id": ITEMS, "clicked": CLICKED} | rates)
    without, _ = drafted(tmp_path / "without", {"item_id": ITEMS, "clicked": CLICKED})
    assert [each["model"].get("interaction") for each in (with_rates, without)] == [
        {"kind": "dcn_v2", "num_layers": 2},
        None,
    ]
    kinds = [each["training"]["embedding_optimizer"]["kind"] for each in (with_rates, without)]
    assert kinds == ["adam", "adagrad"]
