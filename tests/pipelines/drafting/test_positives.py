"""Logs whose rows all say yes become a spec with sampled rows that say no."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.errors import UserError
from tests.errors import place_and_value
from tests.pipelines.drafting.sample_logs import RNG, ROWS, drafted

ITEMS = RNG.integers(0, 40, ROWS)
ORDERS: dict[str, Any] = {
    "user_id": [f"c{each}" for each in RNG.integers(0, 90, ROWS)],
    "product_id": ITEMS,
    "price": 5 + ITEMS * 1.5,
    "category": [f"k{each % 3}" for each in ITEMS],
    "quantity": RNG.integers(1, 5, ROWS),
}


def test_rows_of_a_user_and_an_item_without_a_label_are_positives(tmp_path: Path) -> None:
    document, made = drafted(tmp_path, ORDERS)
    assert document["data"]["negatives"] == {
        "label": "chosen",
        "user": "user_id",
        "item": "product_id",
        "item_columns": ["price", "category"],
        "per_positive": 4,
        "judged_per_positive": 20,
        "list_column": "choice",
    }
    assert document["tasks"] == {"chosen": {"kind": "binary"}}
    assert document["evaluation"] == {"list": {"by": "choice", "k": [10]}}
    assert "no column says no" in made.text


def test_names_of_created_columns_are_new(tmp_path: Path) -> None:
    document, _ = drafted(tmp_path, ORDERS | {"chosen": RNG.random(ROWS), "choice": RNG.random(ROWS)})
    negatives = document["data"]["negatives"]
    assert (negatives["label"], negatives["list_column"]) == ("chosen_2", "choice_2")


def test_without_an_item_a_label_is_needed(tmp_path: Path) -> None:
    columns = {name: values for name, values in ORDERS.items() if name != "product_id"}
    with pytest.raises(UserError, match=place_and_value("--label", "(got columns ... user_id and item_id")):
        drafted(tmp_path, columns)


def test_a_label_of_one_value_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("--label", "(got 'bought', 1 in all rows ... data.negatives")):
        drafted(tmp_path, ORDERS | {"bought": np.ones(ROWS, np.int64)}, ["bought"])
