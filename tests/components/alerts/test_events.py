"""Who is told of a local run: nobody of a good or a stopped one, somebody of a failed or a refused one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sangam.components.alerts import event_of
from sangam.components.reports.serving import Check
from sangam.pipelines.local.request import check_request
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.alerts import Alerts
from tests.components.record.sample_records import gate, record, refused
from tests.errors import place_and_value
from tests.fakes.webhook import Webhook, webhook
from tests.paths import SPECS
from tests.pipelines.command_line import sangam

KEY = "0123456789abcdef"


def test_a_failed_run_is_told_with_its_step_and_error() -> None:
    event = event_of(record(status="failed", failed_step="trainer", error="rank 1 was lost", blessed=None))
    assert event
    told = event.model_dump(exclude={"sent_at"})
    assert told == {
        "kind": "failed",
        "pipeline": "short_video",
        "step": "trainer",
        "date": "2024-03-07",
        "run": "20240308T020000-1a2b3c4d",
        "reason": "rank 1 was lost",
    }


def test_a_refused_model_is_told_with_the_sentences_of_the_gates() -> None:
    gates = [gate(False, "auc 0.5 is below 0.6"), gate(True, "fine")]
    checks = [Check(name="latency", passed=False, reason="p99 is 30 ms"), Check(name="size", passed=True, reason="ok")]
    event = event_of(refused(checks, *gates))
    assert event
    assert (event.kind, event.step) == ("refused", "evaluator,infra_validator")
    assert event.reason == "like: auc 0.5 is below 0.6\nserving check latency: p99 is 30 ms"
    only = event_of(refused(checks[1:], *gates))
    assert only
    assert only.step == "evaluator"


@pytest.mark.parametrize(
    "changes",
    [{}, {"status": "stopped", "error": "stopped by SIGTERM", "blessed": None}, {"blessed": None}],
    ids=["blessed", "stopped", "without gates"],
)
def test_nobody_is_told_of_other_runs(changes: dict[str, Any]) -> None:
    assert event_of(record(**changes)) is None


def test_a_run_with_alerts_and_without_their_address_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SANGAM_ALERT_URL", raising=False)
    spec = load_spec(SPECS / "short_video.yaml").model_copy(update={"alerts": Alerts()})
    with pytest.raises(UserError, match=place_and_value("alerts.url_env", "SANGAM_ALERT_URL is not set")):
        check_request(spec, "2024-03-07", tmp_path, tmp_path / "root")
    assert not (tmp_path / "root").exists()


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


def test_alert_test_sends_and_says_so(hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text((SPECS / "short_video.yaml").read_text() + "\nalerts: {on: [refused], timeout_s: 5}\n")
    monkeypatch.setenv("SANGAM_ALERT_URL", hook.url)
    monkeypatch.setenv("SANGAM_ALERT_KEY", KEY)
    done = sangam("alert-test", str(spec))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"sent to {hook.url.removesuffix('/hooks/s3cret-path')}\n"
    assert json.loads(hook.received[0].body)["kind"] == "test"
    hook.answers = [404]
    done = sangam("alert-test", str(spec), "--json")
    assert done.returncode == 1
    assert "(tried once, got: status 404)" in json.loads(done.stderr.splitlines()[-1])["error"]
