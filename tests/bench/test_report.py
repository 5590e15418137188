import pytest

from bench.contest import Result, ratio
from bench.report import Goal, eviction_goal, goal_table, precision_goal, scale_goals, stage_table
from bench.stages import STAGES

pytestmark = pytest.mark.slow


def _result(ranks: int, *seconds: float) -> Result:
    return Result(ranks, seconds, cpu_s=0.0, losses=(1.0, 1.0))


def test_speeds_are_compared_repeat_by_repeat_and_by_medians_of_steps() -> None:
    ours = [_result(2, 0.1, 0.1, 9.0), _result(2, 0.2), _result(2, 0.4)]
    theirs = [_result(1, 0.1), _result(1, 0.1), _result(1, 0.1)]
    found = ratio(ours, theirs)
    assert (found.median, found.least, found.most) == (1.0, 0.5, 2.0)


def test_a_goal_at_its_edge_is_met() -> None:
    assert Goal("", 1.3, 1.3).is_met
    assert not Goal("", 1.29, 1.3).is_met
    assert Goal("", 1.6, 1.6, is_ceiling=True).is_met
    assert not Goal("", 1.61, 1.6, is_ceiling=True).is_met
    assert "missed" in goal_table([Goal("", 1.61, 1.6, is_ceiling=True)])


def test_many_rows_are_compared_with_few_and_with_the_ideal() -> None:
    few = {"rows": 1e5, "step_s": 0.1, "bytes_per_row": None, "ideal_bytes_per_row": 200}
    many = few | {"rows": 4e6, "step_s": 0.12, "bytes_per_row": 300, "copy_s": 1.0, "write_s": 1.0}
    back = {"rows": 4e6, "restore_s": 8.0, "bytes_per_row": 400}
    goals = {goal.what: (round(goal.measured, 3), goal.is_met) for goal in scale_goals([few, many], [back])}
    assert goals == {
        "step over 4 M rows / 0.1 M rows": (1.2, True),
        "memory of a row / ideal, grown to 4 M rows": (1.5, True),
        "memory of a row / ideal, restored 4 M rows": (2.0, False),
        "checkpoint, copied and written, 4 M rows: million rows/s": (2.0, True),
        "checkpoint, read and restored, 4 M rows: million rows/s": (0.5, False),
    }


def test_the_stage_table_shows_an_eviction_as_its_share_of_a_step() -> None:
    eviction = {"rows": 1e7, "tables": 100, "evict_s": 1.5}
    shown = stage_table({"Sangam": dict.fromkeys(STAGES, 1.0)}, 15.0, eviction, 1000)
    assert shown.splitlines()[-1] == "| eviction: 10 M rows in 100 tables, every 1,000 steps, apart | 1.5 |"
    assert eviction_goal(eviction).is_met
    assert not eviction_goal(eviction | {"evict_s": 2.1}).is_met


def test_auc_lost_is_the_mean_over_seeds() -> None:
    seeds = [{"float32": {"a": 0.8}, "bfloat16": {"a": 0.7985}}, {"float32": {"a": 0.8}, "bfloat16": {"a": 0.8005}}]
    goal = precision_goal(seeds)
    assert goal.measured == pytest.approx(0.0005)
    assert goal.is_met
