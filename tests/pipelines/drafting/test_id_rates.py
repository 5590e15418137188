"""Numbers that are rates of an id are told by their values: behind them layers cross, and rows of many examples move
little."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.drafting.sample_logs import DAYS, ROWS, ROWS_OF_DAY, drafted

RNG = np.random.default_rng(7)
ITEMS = RNG.integers(0, 40, ROWS)
FEW_USERS = RNG.integers(0, 50, ROWS)
CHANCES = RNG.uniform(0.05, 0.6, 40)
CLICKED = (RNG.random(ROWS) < CHANCES[ITEMS]).astype(np.int64)
DURATIONS = RNG.uniform(5.0, 90.0, 40)
WATCHED = DURATIONS[ITEMS] * RNG.uniform(0.0, 1.2, ROWS)
CROSSED = {"kind": "dcn_v2", "num_layers": 2}


def means_before(labels: Any) -> Any:
    """Returns the mean label of each row's item on earlier days, with 20 rows of the mean of all."""
    found = np.full(ROWS, labels.mean(), np.float64)
    for day in range(1, DAYS):
        before, today = slice(0, day * ROWS_OF_DAY), slice(day * ROWS_OF_DAY, (day + 1) * ROWS_OF_DAY)
        sums, counts = np.bincount(ITEMS[before], labels[before], 40), np.bincount(ITEMS[before], minlength=40)
        found[today] = ((sums + 20 * labels.mean()) / (counts + 20))[ITEMS[today]]
    return found


RATES = means_before(CLICKED)


def test_a_rate_of_an_id_is_one_by_any_name(tmp_path: Path) -> None:
    documents = []
    for name in ("item_ctr", "x7"):
        document, made = drafted(
            tmp_path / name, {"user_id": FEW_USERS, "item_id": ITEMS, name: RATES, "clicked": CLICKED}
        )
        assert document["model"]["interaction"] == CROSSED
        assert document["training"]["embedding_optimizer"] == {"kind": "adam", "learning_rate": 0.002}
        assert f"{name} is one of item: the mean clicked of its ids follows it" in made.text
        document["features"]["renamed"] = document["features"].pop(name)
        documents.append(document)
    assert documents[0] == documents[1]


def test_rows_with_few_examples_move_far_beside_rates_too(tmp_path: Path) -> None:
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "x7": RATES, "clicked": CLICKED})
    assert document["model"]["interaction"] == CROSSED
    assert document["training"]["embedding_optimizer"] == {"kind": "adagrad", "learning_rate": 0.1}


def test_how_often_the_label_was_0_is_a_rate(tmp_path: Path) -> None:
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "x7": 1.0 - RATES, "clicked": CLICKED})
    assert document["model"]["interaction"] == CROSSED


def test_a_mean_is_one_of_a_label_that_is_no_rate(tmp_path: Path) -> None:
    columns = {"item_id": ITEMS, "x7": means_before(WATCHED), "watched_s": WATCHED}
    document, _ = drafted(tmp_path, columns, ["watched_s"])
    assert document["model"]["interaction"] == CROSSED


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"exchange_rate": np.repeat([0.81, 0.84, 0.79, 0.82], ROWS_OF_DAY)}, id="one value a day"),
        pytest.param({"item_ctr": RNG.random(ROWS)}, id="another value in each row"),
        pytest.param({"item_rate": RNG.random(40)[ITEMS]}, id="not followed by the label"),
        pytest.param({"item_rate": np.round(100 * RATES)}, id="whole numbers"),
        pytest.param({"duration_s": DURATIONS[ITEMS], "watched_s": WATCHED}, id="an attribute of the item"),
    ],
)
def test_other_numbers_change_neither_layers_nor_rows(tmp_path: Path, columns: dict[str, Any]) -> None:
    label = "watched_s" if "watched_s" in columns else "clicked"
    document, _ = drafted(tmp_path, {"item_id": ITEMS, "clicked": CLICKED} | columns, [label])
    assert "interaction" not in document["model"]
    assert document["training"]["embedding_optimizer"]["kind"] == "adagrad"


def test_the_crosses_of_many_inputs_are_of_low_rank(tmp_path: Path) -> None:
    numbers = {f"x{place}": RNG.random(ROWS) for place in range(70)}
    document, _ = drafted(tmp_path, numbers | {"item_id": ITEMS, "rate": RATES, "clicked": CLICKED})
    assert document["model"]["interaction"] == CROSSED | {"rank": 64}
