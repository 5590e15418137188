"""What a rank tells: sums add up over ranks, and what begins again counts on."""

from collections.abc import Callable
from typing import Any

from sangam.trainer_module.monitoring.training import TrainingFacts, TrainingMetrics


def _stepped(metrics: TrainingMetrics, facts: Callable[[], TrainingFacts], **changes: Any) -> None:
    step: dict[str, Any] = {"examples": 32.0, "losses": [0.5, 2.0], "seconds": 0.1, "is_finite": True}
    metrics.stepped(**{**step, **changes}, facts=facts)


def _tables(rows: int, admitted: int) -> TrainingFacts:
    counts = {"rows": rows, "admitted": admitted, "rejected": 0, "evicted": 0, "expired": 0}
    return TrainingFacts({"dense": 0.1}, {"users": counts})


def test_a_step_that_was_left_out_is_counted_and_spoils_no_mean() -> None:
    now = [0.0]
    metrics = TrainingMetrics(["like", "watch"], clock=lambda: now[0])
    _stepped(metrics, lambda: TrainingFacts({}))
    _stepped(metrics, lambda: TrainingFacts({}), losses=[1.0, 3.0])
    _stepped(metrics, lambda: TrainingFacts({}), losses=[float("nan"), 3.0], is_finite=False)
    now[0] = 2.0
    _stepped(metrics, lambda: TrainingFacts({}), losses=[2.0, 4.0])
    value = metrics.registry.get_sample_value
    assert value("sangam_trainer_steps_total") == 4
    assert value("sangam_trainer_skipped_steps_total") == 1
    assert value("sangam_trainer_examples_total") == 96
    # Since the look after the first step.
    assert value("sangam_trainer_loss", {"task": "like"}) == 1.5
    assert value("sangam_trainer_loss", {"task": "watch"}) == 3.5


def test_facts_are_asked_for_once_a_second() -> None:
    now, asked = [0.0], []
    metrics = TrainingMetrics(["like", "watch"], clock=lambda: now[0])

    def facts() -> TrainingFacts:
        asked.append(now[0])
        return TrainingFacts({})

    for tenth in range(25):
        now[0] = tenth / 10
        _stepped(metrics, facts)
    assert asked == [0.0, 1.0, 2.0]


def test_tables_that_are_loaded_again_count_on() -> None:
    now = [0.0]
    metrics = TrainingMetrics(["like", "watch"], clock=lambda: now[0])
    for facts in (_tables(5, 5), _tables(8, 8), _tables(6, 1)):  # The best epoch's rows, and a new one.
        _stepped(metrics, lambda facts=facts: facts)  # type: ignore[misc]
        now[0] += 1
    value = metrics.registry.get_sample_value
    assert value("sangam_trainer_rows", {"table": "users"}) == 6
    assert value("sangam_trainer_rows_admitted_total", {"table": "users"}) == 9


def test_what_only_some_trainings_have_is_told_by_these_alone() -> None:
    now = [0.0]
    metrics = TrainingMetrics(["like", "watch"], clock=lambda: now[0])
    _stepped(metrics, lambda: TrainingFacts({}))
    value = metrics.registry.get_sample_value
    assert value("sangam_trainer_staleness_count") is None
    assert value("sangam_online_delta") is None
    now[0] = 1.0
    _stepped(metrics, lambda: TrainingFacts({}, staleness={0: 2, 3: 1}))
    now[0] = 2.0
    _stepped(metrics, lambda: TrainingFacts({}, staleness={0: 2, 3: 4}, refused=1))
    assert value("sangam_trainer_staleness_count") == 6
    assert value("sangam_trainer_staleness_sum") == 12
    assert value("sangam_trainer_refused_pushes_total") == 1
