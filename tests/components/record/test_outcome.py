"""The end of a run in words: one place has them for the terminal, pages, alerts and commands."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from sangam.components.alerts import event_of
from sangam.components.record.outcome import ending_lines, outcome_of
from sangam.components.record.store import read_run, started_at, stored
from sangam.components.registry import shadow
from sangam.components.registry.record import BlessedModel
from sangam.components.registry.versions import withdraw
from sangam.components.reports.evaluation import GateVerdict
from sangam.components.reports.serving import Check
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec.alerts import Alerts
from tests.components.promotion.sample_shadow import LIVE, SHADOW, put
from tests.components.record.sample_records import gate, record, refused

LOW = gate(False, "auc 0.5 is below 0.6")
SLOW = Check(name="latency", passed=False, reason="p99 is 30 ms")
NEVER = GateVerdict(kind="finite", metric="auc", bound=0, value=None, passed=False, reason="7 scores are NaN")


def told(**changes: Any) -> tuple[str, str, str]:
    """Returns word, tone and sentence of a run."""
    outcome = outcome_of(stored(record(**changes)))
    return outcome.word, outcome.tone, outcome.sentence


def test_a_run_that_succeeded_says_what_became_of_its_model(tmp_path: Path) -> None:
    version = tmp_path / "20240307001"
    pushed = {"pushed": {"version": version.name, "path": str(version)}}
    sentence = "pushed as version 20240307001: every gate passed"
    assert told(blessed=None) == ("ended", "good", "ended without a verdict: it made examples for a search")
    assert told() == ("blessed", "good", "blessed and not pushed: push.kind of the spec is none")
    assert told(**pushed) == ("pushed", "good", f"{sentence}; the version was removed since")
    for name in (version.name, "20240306001"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_text("graph")
    assert told(**pushed) == ("pushed", "good", sentence)
    withdraw(tmp_path, because="likes fell", now=datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC))
    assert told(**pushed) == ("rolled back", "bad", f"{sentence}; rolled back since, because likes fell")


def test_a_version_in_the_shadow_says_what_it_waits_for_and_what_became_of_it(tmp_path: Path) -> None:
    sentence = f"pushed as version {SHADOW}: every gate passed"
    pushed = {"pushed": {"version": SHADOW, "path": str(tmp_path / SHADOW), "shadow_of": LIVE}}
    put(tmp_path, LIVE)
    put(tmp_path / "shadow", SHADOW)
    waits = f"waits in the shadow of {LIVE}; `sangam promote` makes it live or drops it"
    assert told(**pushed) == ("pushed", "good", f"{sentence}; {waits}")
    assert ending_lines(record(**pushed, live={"version": LIVE, "folder": str(tmp_path)}))[1:3] == [
        f"pushed: version {SHADOW}, which {waits}",
        f"live: version {LIVE} in {tmp_path}",
    ]
    at = datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC)
    decision = shadow.Decision(version=SHADOW, live=LIVE, verdict="promoted", because="it is good", at=at)
    shadow.promote(tmp_path, decision)
    made = f"made live at 2024-03-08 00:00 UTC after the shadow of {LIVE}, because it is good"
    assert told(**pushed) == ("pushed", "good", f"{sentence}; {made}")
    withdraw(tmp_path, because="likes fell", now=at)
    assert told(**pushed) == ("rolled back", "bad", f"{sentence}; rolled back since, because likes fell")
    other = {"pushed": {"version": "20240308001", "path": str(tmp_path / "20240308001"), "shadow_of": LIVE}}
    put(tmp_path / "shadow", "20240308001")
    shadow.drop(tmp_path, decision.model_copy(update={"version": "20240308001", "verdict": "dropped"}))
    word, tone, _ = told(**other)
    assert (word, tone) == ("dropped", "warn")


def test_a_run_that_ended_early_says_where_and_why() -> None:
    failed = {"status": "failed", "failed_step": "trainer", "blessed": None}
    assert told(**failed, error="rank 1 was killed\nlogs: here") == (
        "failed",
        "bad",
        "failed in trainer: rank 1 was killed",
    )
    assert told(status="stopped", error="stopped by SIGTERM") == ("stopped", "mute", "stopped: stopped by SIGTERM")
    assert told(status="failed") == ("failed", "bad", "failed: no error was reported")


@pytest.mark.parametrize(
    ("checks", "gates", "causes", "by_hand"),
    [
        ([], [LOW], ["like: auc 0.5 is below 0.6"], True),
        ([SLOW], [LOW], ["like: auc 0.5 is below 0.6", "serving check latency: p99 is 30 ms"], False),
        ([], [NEVER], ["like: 7 scores are NaN"], False),
    ],
)
def test_a_refusal_has_every_cause_and_what_to_do(
    checks: list[Check], gates: list[GateVerdict], causes: list[str], by_hand: bool
) -> None:
    made = refused(checks, *gates)
    outcome = outcome_of(stored(made))
    assert (outcome.word, outcome.tone) == ("refused", "warn")
    assert outcome.sentence == f"not pushed: a gate refused the model: {'; '.join(causes)}"
    assert list(outcome.causes) == causes
    assert any("sangam bless" in each for each in outcome.advice) is by_hand
    event = event_of(made, Alerts())
    assert event
    assert event.reason == "\n".join(causes)
    who = "quality gates and the serving check" if checks else "quality gates"
    assert ending_lines(made)[0] == f"not blessed: refused by the {who}"


def test_a_blessing_by_hand_is_told_with_what_it_overrides() -> None:
    blessing = BlessedModel.model_construct(because="a holiday", by="ada", pushed="serving/small/1")
    sentence = outcome_of(stored(refused([], LOW)), blessing).sentence
    assert sentence == (
        "blessed by hand by ada, because a holiday, and pushed as version 1 "
        "(not pushed: a gate refused the model: like: auc 0.5 is below 0.6)"
    )


def test_a_run_without_a_record_says_so(tmp_path: Path) -> None:
    run = Root(str(tmp_path)).run("20240308T020000-1a2b3c4d")
    run.path.mkdir(parents=True)
    assert outcome_of(read_run(run)).sentence == "killed: it left no summary.json"
    run.summary.write_text("[]")
    outcome = outcome_of(read_run(run))
    assert outcome.sentence == "unreadable: its summary.json is damaged (got: it is no JSON object)"
    assert "sangam run SPEC --date YYYY-MM-DD" in outcome.advice[0]


def test_advice_on_kubeflow_names_commands_that_work_there() -> None:
    failed = outcome_of(stored(record(status="failed", error="x", runner="kubeflow")))
    assert any("sangam status short_video --host URL" in each for each in failed.advice)
    by_kubeflow = refused([], LOW).model_copy(update={"runner": "kubeflow"})
    assert not any("sangam bless" in each for each in outcome_of(stored(by_kubeflow)).advice)


@pytest.mark.parametrize(
    ("run", "year"), [("20240308T020000-1a2b3c4d", 2024), ("99990101T000000-a", None), ("3f2504e0-4f89", None)]
)
def test_the_id_of_a_run_on_this_machine_says_when_it_began(run: str, year: int | None) -> None:
    started = started_at(run)
    assert (started and started.year) == year
