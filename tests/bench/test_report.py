import pytest

from bench.report import Goal, eviction_goal, goal_table, precision_goal, scale_goals


def test_a_goal_at_its_edge_is_met() -> None:
    assert Goal("", 1.3, 1.3).is_met
    assert not Goal("", 1.29, 1.3).is_met
    assert Goal("", 1.6, 1.6, is_ceiling=True).is_met
    assert not Goal("", 1.61, 1.6, is_ceiling=True).is_met
    assert "missed" in goal_table([Goal("", 1.61, 1.6, is_ceiling=True)])


def test_many_rows_are_compared_with_few_and_with_the_ideal() -> None:
    few = {"rows": 1e5, "step_s": 0.1, "bytes_per_row": None, "ideal_bytes_per_row": 200}
    many = few | {"rows": 4e6, "step_s": 0.12, "bytes_per_row": 300, "write_s": 2.0}
    back = {"rows": 4e6, "restore_s": 8.0, "bytes_per_row": 400}
    goals = {goal.what: (round(goal.measured, 3), goal.is_met) for goal in scale_goals([few, many], [back])}
    assert goals == {
        "step over 4 M rows / 0.1 M rows": (1.2, True),
        "memory of a row / ideal, grown to 4 M rows": (1.5, True),
        "memory of a row / ideal, restored 4 M rows": (2.0, False),
        "checkpoint, written, 4 M rows: million rows/s": (2.0, True),
        "checkpoint, read and restored, 4 M rows: million rows/s": (0.5, False),
    }


def test_an_eviction_may_take_two_seconds() -> None:
    eviction = {"rows": 1e7, "tables": 100, "evict_s": 1.5}
    assert eviction_goal(eviction).is_met
    assert not eviction_goal(eviction | {"evict_s": 2.1}).is_met


def test_auc_lost_is_the_mean_over_seeds() -> None:
    seeds = [{"float32": {"a": 0.8}, "bfloat16": {"a": 0.7985}}, {"float32": {"a": 0.8}, "bfloat16": {"a": 0.8005}}]
    goal = precision_goal(seeds)
    assert goal.measured == pytest.approx(0.0005)
    assert goal.is_met
