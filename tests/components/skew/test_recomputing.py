"""Logged requests are joined to tables as of their times, as training's examples are: nothing differs on that path."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sangam.components.request_log.served import Served
from sangam.components.skew.comparing import compare
from sangam.components.skew.recomputing import recompute
from sangam.components.skew.sampling import CANDIDATE, sampled
from sangam.schemas.contracts.request_log import REQUEST_ID
from sangam.schemas.derived.days import parse_day
from tests.components.request_log.sample_requests import write
from tests.components.skew.sample_tables import CANDIDATES, COLUMNS, DAYS, LOGS, PLAN, REQUESTS, request, write_tables

pytestmark = pytest.mark.slow

KEYS = (REQUEST_ID, CANDIDATE, "post")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("skew"))


def _compared(root: Path, log: Path, requests: Sequence[Served]) -> Any:
    write(log, PLAN, requests)
    day = parse_day(DAYS[-1])
    served = sampled(str(log), day, 100, COLUMNS)
    return compare(served, recompute(served, LOGS, COLUMNS, str(root), day, KEYS), KEYS)


def test_features_of_requests_equal_those_of_a_join(tables: Path) -> None:
    found = _compared(tables, tables / "right", [request(number, 0) for number in range(REQUESTS)])
    rows = REQUESTS * CANDIDATES
    assert (found.rows, found.unmatched) == (rows, 0)
    assert [(each.column, each.compared, each.different) for each in found.columns] == [
        ("price", rows, 0),
        ("tags", rows, 0),
    ]


def test_a_server_with_the_version_before_is_found_with_therequest(tables: Path) -> None:
    found = _compared(tables, tables / "old", [request(number, 1) for number in range(REQUESTS)])
    worst = found.worst
    assert (worst.column, worst.cause.kind, worst.cause.share) == ("price", "older version of a join", 1.0)
    example = worst.examples[0]
    assert example.keys == {"request_id": "r0", "candidate": 0, "post": 0}
    assert example.offline - example.served == 1 / 8


def test_a_sample_has_whole_requests_and_is_the_same_again(tables: Path) -> None:
    write(tables / "many", PLAN, [request(number, 0) for number in range(REQUESTS)])
    log, day = str(tables / "many"), parse_day(DAYS[-1])
    found = sampled(log, day, 3, COLUMNS)
    again = sampled(log, day, 3, COLUMNS)
    assert found.drop_columns(["price"]).equals(again.drop_columns(["price"]))  # It has NaN.
    assert found[CANDIDATE].to_pylist() == list(range(CANDIDATES)) * 3
    assert len(found[REQUEST_ID].unique()) == 3
    assert sampled(log, parse_day(DAYS[0]), 3, COLUMNS).num_rows == 0
