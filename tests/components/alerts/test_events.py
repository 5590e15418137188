"""Who is told of a local run: nobody of a good or a stopped one, somebody of a failed or a refused one."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sangam.components.alerts import event_of, send_all, silence_of
from sangam.components.record.store import write_record
from sangam.components.reports.serving import Check
from sangam.pipelines.local.request import check_request
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.alerts import Alerts
from tests.components.record.sample_records import gate, record, refused
from tests.components.registry.sample_blessings import blessing
from tests.errors import place_and_value
from tests.fakes.webhook import Webhook, webhook
from tests.paths import SPECS
from tests.pipelines.command_line import sangam

KEY = "0123456789abcdef"
ALERTS = Alerts()
NOW = datetime.datetime(2024, 3, 7, 9, 30, tzinfo=datetime.UTC)


def test_a_failed_run_is_told_with_its_step_and_error() -> None:
    event = event_of(record(status="failed", failed_step="trainer", error="rank 1 was lost", blessed=None), ALERTS)
    assert event
    told = event.model_dump(include={"kind", "pipeline", "step", "date", "run", "reason"})
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
    event = event_of(refused(checks, *gates), ALERTS)
    assert event
    assert (event.kind, event.step) == ("refused", "evaluator,infra_validator")
    assert event.reason == "like: auc 0.5 is below 0.6\nserving check latency: p99 is 30 ms"
    only = event_of(refused(checks[1:], *gates), ALERTS)
    assert only
    assert only.step == "evaluator"


@pytest.mark.parametrize(
    "changes",
    [{}, {"status": "stopped", "error": "stopped by SIGTERM", "blessed": None}, {"blessed": None}],
    ids=["blessed", "stopped", "without gates"],
)
def test_nobody_is_told_of_other_runs(changes: dict[str, Any]) -> None:
    assert event_of(record(**changes), ALERTS) is None


def test_warnings_on_a_pushed_model_are_told() -> None:
    event = event_of(record(warnings=["drift: hour is far", "like: calibration 1.3"]), ALERTS)
    assert event
    assert (event.kind, event.reason) == ("warning", "drift: hour is far\nlike: calibration 1.3")
    assert event.title == "short_video 2024-03-07: 2 warnings, no gate refused the model"
    assert event.command.startswith("sangam show ")


def test_an_alert_says_where_its_run_is_and_what_is_live(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "r1"
    run.mkdir(parents=True)
    failed = record(path=str(run), run="r1", status="failed", error="x", blessed=None)
    _push(tmp_path, days_ago=1)
    event = event_of(failed, ALERTS)
    assert event
    assert (event.root, event.page, event.command) == (str(tmp_path), None, f"sangam why {run}")
    assert event.live_text == f"version 20240307001 in {tmp_path}/serving/feed"
    (run / "report.html").touch()
    linked = event_of(failed, Alerts(ui="https://ui.example/"))
    assert linked
    assert linked.page == "https://ui.example/runs/r1"
    assert event_of(failed, ALERTS).page == str(run / "report.html")  # type: ignore[union-attr]


def test_days_without_a_push_are_told_once_they_are_the_declared_ones(tmp_path: Path) -> None:
    root, alerts = Root(str(tmp_path)), Alerts(not_pushed_for_days=3)
    assert silence_of(alerts, root, "short_video", NOW) is None
    write_record(record(path=str(_run_folder(tmp_path, "20240304T020000-1a2b3c4d")), status="failed", error="x"))
    never = silence_of(alerts, root, "short_video", NOW)
    assert never
    assert (never.date, never.reason) == (None, "nothing was pushed for 3 days: nothing was ever pushed")
    _push(tmp_path, days_ago=4)
    event = silence_of(alerts, root, "short_video", NOW)
    assert event
    assert event.reason == "nothing was pushed for 4 days: the last push was at 2024-03-03 09:30 UTC"
    assert (event.kind, event.command, event.live) == ("not_pushed", f"sangam status {tmp_path}", "20240307001")
    assert silence_of(ALERTS, root, "short_video", NOW) is None
    _push(tmp_path, days_ago=2)
    assert silence_of(alerts, root, "short_video", NOW) is None


def test_a_run_tells_its_end_and_the_days_without_a_push(hook: Webhook, tmp_path: Path) -> None:
    _push(tmp_path, days_ago=4)
    run = _run_folder(tmp_path, "20240304T020000-1a2b3c4d")
    failed = record(path=str(run), status="failed", error="x", blessed=None)
    environ = {"SANGAM_ALERT_URL": hook.url, "SANGAM_ALERT_KEY": KEY}
    assert send_all(Alerts(on=("refused",), not_pushed_for_days=3), failed, environ) == []
    assert send_all(Alerts(not_pushed_for_days=3), failed, environ) == []
    assert [json.loads(got.body)["kind"] for got in hook.received] == ["not_pushed", "failed", "not_pushed"]


def _run_folder(root: Path, run: str) -> Path:
    folder = root / "runs" / run
    folder.mkdir(parents=True)
    return folder


def _push(root: Path, *, days_ago: int) -> None:
    """Leaves a version, and the record of its blessing."""
    version, blessed = root / "serving" / "feed" / "20240307001", root / "blessed" / "short_video"
    for folder in (version, blessed):
        folder.mkdir(parents=True, exist_ok=True)
    (version / "saved_model.pb").touch()
    at = NOW - datetime.timedelta(days=days_ago)
    number = len(list(blessed.iterdir())) + 1
    made = blessing(f"m{number}", pushed=str(version.relative_to(root)), blessed_at=at)
    (blessed / f"{number:08d}.json").write_text(made.model_dump_json())


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
