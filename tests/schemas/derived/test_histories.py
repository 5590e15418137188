"""What encoders of histories cost."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.histories import HistoryCost, history_costs
from tests.schemas.sample_specs import loaded

DIM, EVENTS = 4, 100


def cost(tmp_path: Path, encoder: dict[str, Any], events: int = EVENTS) -> HistoryCost:
    to_target = {
        "tables": {"users": {"dim": DIM}, "tags": {"dim": DIM}},
        "features.recent.encoder": encoder,
        "features.recent.table": "users",
        "features.recent.max_length": events,
    }
    [found] = history_costs(loaded(tmp_path, to_target).ranker())
    return found


def test_multiply_adds_are_those_of_the_products(tmp_path: Path) -> None:
    assert not history_costs(loaded(tmp_path).ranker())
    din = cost(tmp_path, {"kind": "din", "target": "friend", "units": [3]})
    # Inputs and a 1, hidden units and a score; then the weighted sum.
    assert din.products == EVENTS * ((DIM + 1) * 3 + 3 + DIM)
    hstu = cost(tmp_path, {"kind": "hstu", "target": "friend"})
    of_candidate = 2 * DIM**2 + 3 * DIM**2 + 2 * DIM * (EVENTS + 1)
    assert hstu.products == EVENTS * 2 * DIM**2 + of_candidate
    assert 0 < hstu.share < 1


@pytest.mark.parametrize("kind", ["hstu", "target_transformer"])
def test_one_layer_follows_the_length_and_two_its_square(tmp_path: Path, kind: str) -> None:
    for layers, least, most in ((1, 1.8, 2.2), (2, 3.5, 4.1)):
        encoder = {"kind": kind, "target": "friend", "num_layers": layers}
        short, long = (cost(tmp_path, encoder, events) for events in (500, 1_000))
        assert least < long.products / short.products < most
        assert 1.8 < long.request_s / short.request_s < most
    assert "1,000 events" in long.text()
