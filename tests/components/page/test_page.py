"""The page of a run: what it says, in which order, and that nothing of the logs is markup."""

import re
from pathlib import Path
from typing import Any

import pytest

from sangam.components.page.collect import collect
from sangam.components.page.facts import Facts, PageContext
from sangam.components.page.render import render
from tests.components.page.sample_runs import facts, gate, past, run


def _text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_verdict_comes_first_and_says_why() -> None:
    text = _text(render(run(), facts()))
    assert text.index("Pushed pushed as version 20260305001: every gate passed") < text.index("Tasks")


def test_a_refused_model_names_every_gate() -> None:
    failed = (gate(passed=False, reason="auc 0.5 is below 0.6"), gate(passed=False, reason="gauc 0.4 is below 0.6"))
    text = _text(render(run(gates=failed, pushed=None), facts()))
    told = "Refused not pushed: a gate refused the model: like: auc 0.5 is below 0.6; like: gauc 0.4 is below 0.6"
    assert f"{told} like: auc 0.5 is below 0.6 like: gauc 0.4 is below 0.6" in text


def test_a_failed_run_shows_the_error_the_end_of_its_log_and_what_to_try() -> None:
    failed = run(status="failed", blessed=None, pushed=None, error="rank 1 was killed", failed_step="trainer", tasks={})
    text = _text(render(failed, Facts(), PageContext(log_tail=["step 3", "Killed"])))
    for words in ("failed in trainer: rank 1 was killed", "step 3 Killed", "the same command resumes"):
        assert words in text


def test_the_change_is_since_the_last_blessed_model_not_the_last_run() -> None:
    assert "0.7100 -0.0100" in _text(render(run(), facts(), past=past()))


def test_slices_come_worst_first_and_those_without_auc_last() -> None:
    text = _text(render(run(), facts()))
    places = [text.index(name) for name in ("tab=search", "tab=home", "tab=other")]
    assert places == sorted(places)


def test_the_time_of_a_training_adds_up() -> None:
    text = _text(render(run(), facts()))
    # 4 s: 3 in the epoch, of which a tenth waited and half a second for checkpoints.
    for words in ("steps 2.2 s 55.0 %", "waiting for input 0.3 s 7.5 %", "checkpoints 0.5 s", "the rest 1.0 s"):
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
    assert "AUC by task" not in render(run(tasks={}), facts(curves={}))


def test_outputs_that_are_not_there_are_no_facts(tmp_path: Path) -> None:
    assert collect({"training": tmp_path, "evaluation": tmp_path / "gone"}) == Facts()
