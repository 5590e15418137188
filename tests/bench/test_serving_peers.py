import numpy as np
import pyarrow as pa
import pytest

from bench.serving_peers.days import inputs, request
from bench.serving_peers.tables import Measured, Traffic, days, measured, speeds
from bench.serving_peers.trees import tree_table
from sangam.schemas.contracts.export import ServedColumn


def test_a_core_is_counted_by_its_processor_time_and_a_latency_by_the_clock() -> None:
    turns = [{"ms": [2.0] * 99, "processor_s": 0.05}, {"ms": [7.0], "processor_s": 0.05}]
    found = measured(turns, 200)
    assert (found.rate, found.p50_ms) == (200_000, 2.0)
    assert found.p99_ms == pytest.approx(2.05)


def test_a_million_candidates_cost_the_seconds_of_a_core_that_they_take() -> None:
    found = {"call": dict.fromkeys((200, 2_000), Measured(500_000, 1.0, 2.0))}
    assert "| 500,000 | 1.00 | 2.00 | 0.002000 |" in speeds(found, core_hour=3.6)


def test_a_day_of_traffic_costs_all_its_candidates_and_keeps_so_many_cores_busy() -> None:
    found = {"call": dict.fromkeys((200, 2_000), Measured(1e6, 1.0, 2.0))}
    assert days(found, 0.04, [Traffic("a", 8_000 * 86_400, 2_000)]).endswith("| 15.4 | 16 |")


def test_the_rate_of_an_id_is_that_of_the_days_before() -> None:
    def day(labels: list[int]) -> pa.Table:
        ids = {"user_id": ["u", "v"], "post_id": [1, 2], "author_id": [1, None], "hashtags": [["x", "y"], []]}
        names = ("duration_s", "post_age_h", "author_followers", "network_mbps", "hour")
        numbers = {name: [1.0, None] for name in names}
        return pa.table(ids | numbers | {"language": ["hi", None], "tab": ["home", "home"], "like": labels})

    made = tree_table([day([1, 0]), day([1, 1]), day([0, 0])], ["like"])
    numbers, users = made.x[:, :5], made.x[:, 7:9]
    assert np.isnan(numbers[1]).all()
    assert made.categories == [5, 6]
    # The mean of the days before the last is 3/4: 20 rows of it are each id's beginning.
    assert users[:, 0] == pytest.approx([15 / 20, 15 / 20, 16 / 21, 15 / 21, 17 / 22, 16 / 22])
    assert users[:, 1].tolist() == [0, 0, 1, 1, 2, 2]
    assert made.x[1::2, -1].tolist() == [0, 0, 0], "a row without hashtags has seen none"


def test_a_request_has_one_row_of_the_user_and_one_of_each_post() -> None:
    columns = {
        "user_id": ServedColumn(type="string", is_list=False, input="user_id"),
        "post_id": ServedColumn(type="int", is_list=False, input="post_id"),
        "hashtags": ServedColumn(type="string", is_list=True, input="hashtags"),
    }
    day = pa.table({"user_id": ["a", None], "post_id": [7, None], "hashtags": [["x", "y"], None]})
    made = request(inputs(day, columns), 1, np.array([0, 1, 0]))
    assert {name: array.tolist() for name, array in made.items()} == {
        "user_id": [b""],
        "post_id": [7, -(2**63), 7],
        "hashtags": [[b"x", b"y"], [b"", b""], [b"x", b"y"]],
        "hashtags_length": [2, 0, 2],
    }
