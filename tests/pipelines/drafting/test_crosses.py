"""An id and its price, and two ids, get a row for each pair, whatever their columns are called."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.pipelines import drafting
from sangam.pipelines.drafting import draft
from sangam.pipelines.drafting.sample import read_sample
from tests.errors import mentions
from tests.pipelines.drafting.sample_logs import (
    CLICKED,
    EVENT_TIME,
    RNG,
    ROWS,
    ROWS_OF_DAY,
    USERS,
    drafted,
    valid,
    write_days,
)

ITEMS = RNG.integers(0, 40, ROWS)
PRICES = 5.0 + ITEMS + RNG.integers(0, 3, ROWS)


def _bought_before() -> list[int]:
    """Returns whether an earlier day has the row's user and item."""
    first: dict[tuple[str, int], int] = {}
    days = [row // ROWS_OF_DAY for row in range(ROWS)]
    pairs = list(zip(USERS, ITEMS.tolist(), strict=True))
    return [int(first.setdefault(pair, day) < day) for pair, day in zip(pairs, days, strict=True)]


def _recent() -> list[list[str]]:
    """Returns the user's last three items before each row, the newest first."""
    last: dict[str, list[str]] = {}
    found = []
    for user, item in zip(USERS, ITEMS.tolist(), strict=True):
        found.append(last.get(user, []))
        last[user] = [f"i{item}", *last.get(user, [])][:3]
    return found


REORDERED = np.array(_bought_before())
_rng = np.random.default_rng(2)
CHANCES = 0.1 + 0.8 * _rng.integers(0, 2, [40, 3])
BOUGHT = (_rng.random(ROWS) < CHANCES[ITEMS, (PRICES - ITEMS).astype(int) - 5]).astype(np.int64)
"""Each item has prices of its own at which it is bought."""
SHARED = np.argsort(_rng.random([40, 20]), axis=1)[ITEMS, _rng.integers(0, 3, ROWS)]
"""Prices of which each item has three of twenty."""
DEARER = (_rng.random(ROWS) < 0.2 + 0.03 * SHARED).astype(np.int64)
"""All items are bought by the price alone."""


def test_an_id_and_its_price_have_a_row_for_each_pair(tmp_path: Path) -> None:
    document, made = drafted(tmp_path, {"item_id": ITEMS, "unit_price": PRICES, "bought": BOUGHT})
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
        pytest.param({"item_id": ITEMS, "price": 5.0 + ITEMS, "bought": BOUGHT}, id="one price of each item"),
        pytest.param({"item_id": ITEMS, "price": RNG.random(ROWS), "bought": BOUGHT}, id="pairs that do not return"),
        pytest.param({"item_id": ITEMS, "price": PRICES, "clicked": CLICKED}, id="tells no label"),
        pytest.param({"item_id": ITEMS, "price": SHARED, "bought": DEARER}, id="the price alone tells it"),
    ],
)
def test_other_pairs_have_no_rows(tmp_path: Path, columns: dict[str, Any]) -> None:
    document, _ = drafted(tmp_path, columns)
    assert "cross" not in [feature["kind"] for feature in document["features"].values()]


def test_two_ids_have_a_small_row_for_each_pair_and_one_pass(tmp_path: Path) -> None:
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


def _of_new_users() -> dict[str, Any]:
    """Returns logs whose users are new in a fifth of the rows, and like nothing then, and have a town each."""
    row = np.arange(ROWS)
    users = np.where(_rng.random(ROWS) < 0.2, 100 + row, _rng.integers(0, 100, ROWS))
    known = np.isin(users, users[: ROWS - ROWS_OF_DAY])
    columns = {"user_id": users, "town_id": users // 4, "liked": _rng.random(ROWS) < np.where(known, 0.9, 0.1)}
    return {name: np.asarray(values).astype(np.int64) for name, values in columns.items()}


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"item_id": ITEMS, "clicked": CLICKED}, id="tells no label"),
        pytest.param({"item_id": np.arange(ROWS) % ROWS_OF_DAY, "reorder": REORDERED}, id="does not return"),
        pytest.param(_of_new_users(), id="an id and its attribute: the pair is the id again"),
    ],
)
def test_other_pairs_of_ids_have_no_rows(tmp_path: Path, columns: dict[str, Any]) -> None:
    document, _ = drafted(tmp_path, columns)
    assert not {"cross", "count"} & {feature["kind"] for feature in document["features"].values()}


def test_pairs_may_be_missing_where_their_columns_may(tmp_path: Path) -> None:
    prices = np.where(RNG.random(ROWS) < 0.1, np.nan, PRICES)
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "price": prices, "bought": BOUGHT})
    assert document["features"]["item_and_price"]["missing_row"]


def test_sampled_items_have_no_price_of_their_own(tmp_path: Path) -> None:
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "price": PRICES})
    assert "cross" not in [feature["kind"] for feature in document["features"].values()]


def _drafted(folder: Path, names: Mapping[str, str]) -> tuple[set[Any], list[Any]]:
    """Returns the features of a draft, as kinds and columns, and what follows from them; under other names."""
    columns = {
        "user_id": USERS,
        "item_id": [f"i{item}" for item in ITEMS],
        "unit_price": PRICES,
        "recent_items": _recent(),
        "hour": (EVENT_TIME // 3600 + 2) % 24,
        "event_time": EVENT_TIME,
    }
    named = {names.get(name, name): values for name, values in columns.items()}
    labels = {"reorder": REORDERED, "bought": BOUGHT}
    made = draft(write_days(folder, named | labels), "small", [*labels])
    document = valid(made)
    real = {other: name for name, other in names.items()}
    read = [(each.kind, (each.column, *_others(each.settings))) for each in made.guesses.features]
    features = {(kind, frozenset(real.get(column, column) for column in columns)) for kind, columns in read}
    [user] = [each.column for each in made.guesses.features if each.name == made.guesses.user]
    sizes = sorted(str(table) for table in document["tables"].values())
    return features, [real.get(user, user), sizes, document["training"], document["model"]]


def _others(settings: Mapping[str, Any]) -> list[str]:
    return [
        *settings.get("columns", ()),
        *settings.get("by", ()),
        *([settings["among"]] if "among" in settings else []),
    ]


def test_the_names_of_columns_change_no_feature(tmp_path: Path) -> None:
    names = ["user_id", "item_id", "unit_price", "recent_items", "hour", "event_time"]
    real = _drafted(tmp_path / "real", {})
    crosses = [columns for kind, columns in real[0] if kind == "cross"]
    assert {frozenset(["item_id", "unit_price"]), frozenset(["user_id", "item_id"])} == {*crosses}
    assert {"count", "match", "sequence"} <= {kind for kind, _ in real[0]}
    assert _drafted(tmp_path / "neutral", {name: f"c{number:02}" for number, name in enumerate(names, 1)}) == real
