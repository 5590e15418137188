"""The page of a run: what it says, in which order, and that nothing of the logs is markup."""

import re
from pathlib import Path
from typing import Any

import pytest

from sangam.components.page.collect import collect
from sangam.components.page.facts import Facts, PageContext
from sangam.components.page.render import render
from tests.components.page.sample_runs import facts, gate, past, run, skewed


def _text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_verdict_comes_first_and_says_why() -> None:
    text = _text(render(run(), facts()))
    assert text.index("Pushed pushed as version 20260305001: every gate passed") < text.index("Tasks")


def test_a_refused_model_names_every_gate() -> None:
    failed = (gate(passed=False, reason="auc 0.5 is below 0.6"), gate(passed=False, reason="gauc 0.4 is below 0.6"))
    text = _text(render(run(gates=failed, pushed=None), facts()))
    told = "Refused not pushed: a gate refused the model like: auc 0.5 is below 0.6 like: gauc 0.4 is below 0.6"
    assert told in text


def test_a_failed_run_shows_the_error_the_end_of_its_log_and_what_to_try() -> None:
    failed = run(status="failed", blessed=None, pushed=None, error="rank 1 was killed", failed_step="trainer", tasks={})
    text = _text(render(failed, Facts(), PageContext(log_tail=["step 3", "Killed"])))
    for words in ("failed in trainer: rank 1 was killed", "step 3 Killed", "the same command resumes"):
        assert words in text


def test_a_tasks_row_has_its_own_metric_the_bound_the_last_model_and_the_difference() -> None:
    row = "like auc 0.7000 0.6500 to 0.7500 at least 0.6 0.7100 -0.0100 -0.0200 to -0.0050 10 % positive"
    assert row in _text(render(run(), facts(), past=past()))


def test_a_regression_is_shown_by_its_own_metric() -> None:
    judged = {"metrics": {"mae": 1.25, "rmse": 2.0, "mean_label": 12.31}, "gates": [gate(metric="mae", bound=2.0)]}
    text = _text(render(run(tasks={"price": judged}), Facts()))
    assert "price mae 1.2500 at most 2 – – mean 12.31" in text


def test_warnings_are_in_the_verdict_and_the_notes() -> None:
    text = _text(render(run(warnings=["drift: user"]), facts()))
    assert "Pushed, with 1 warning pushed as version 20260305001: every gate passed" in text
    assert text.count("drift: user") == 2


def test_the_steps_and_the_time_between_them_are_the_runs() -> None:
    text = _text(render(run(total_seconds=12.5), facts()))
    assert "trainer ran 10 s 15 s" in text
    assert "start, and between the steps 2.5 s" in text
    assert "the run pushed 12 s" in text


def test_importance_comes_before_the_distributions_of_the_columns() -> None:
    text = _text(render(run(), facts()))
    assert text.index("Permutation importance") < text.index("among 5,000 evaluation examples") < text.index("distance")


def test_skew_is_told_by_column_and_task() -> None:
    text = _text(render(run(serving=skewed()), facts()))
    assert "Skew what servers saw and scored" in text
    assert "price 54 60 4.375 4.5 unit: 1000 times" in text
    assert "tags 0 60" in text
    assert "score of like 1 60 0.5 0.25" in text
    assert "Skew" not in _text(render(run(), facts()))


def test_slices_come_worst_first_and_those_without_a_value_last() -> None:
    text = _text(render(run(), facts()))
    places = [text.index(name) for name in ("tab=search", "tab=home", "tab=other")]
    assert places == sorted(places)


def test_the_time_of_a_training_adds_up() -> None:
    text = _text(render(run(), facts()))
    # 4 s: 3 in the epoch, of which a tenth waited for input, as much for ranks, and half a second for checkpoints.
    input_and_ranks = ("waiting for input 0.3 s 10.0 %", "waiting for other ranks 0.3 s 10.0 %")
    for words in ("steps 1.9 s 63.3 %", *input_and_ranks, "checkpoints 0.5 s", "the rest 1.0 s –"):
        assert words in text


def test_nothing_of_the_logs_or_the_spec_is_markup() -> None:
    evil = "<script>alert(1)</script>"
    page = render(run(evil, name=evil, error=evil, notes=[evil]), facts(evil), spec=evil)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_page_asks_for_nothing() -> None:
    page = render(run(), facts())
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"|url\((?!#)", page)


@pytest.mark.parametrize("missing", ["training", "losses"])
def test_what_a_run_did_not_reach_is_left_out(missing: str) -> None:
    parts: dict[str, Any] = {missing: None}
    assert "Lineage" in render(run(), facts(**parts))
    assert "Metric by task" not in render(run(tasks={}), facts(curves={}))


def test_outputs_that_are_not_there_are_no_facts(tmp_path: Path) -> None:
    assert collect({"training": tmp_path, "evaluation": tmp_path / "gone"}) == Facts()
