"""What `sangam status` says of a root on this machine."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sangam.components.record.run import Pushed
from sangam.components.reports.spec_file import write_spec
from sangam.pipelines.cli import app
from tests.components.record.sample_records import gate, record, refused
from tests.components.registry.sample_blessings import blessing
from tests.fakes.webhook import webhook
from tests.pipelines.history.test_runs import FIRST, SECOND, leave
from tests.schemas.sample_specs import loaded

VERSION = "20240305001"


def status(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["status", *arguments], env={"COLUMNS": "200"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a pushed model, which has a warning."""
    version, blessed = tmp_path / "serving" / "small" / VERSION, tmp_path / "blessed" / "small"
    for folder in (version, blessed):
        folder.mkdir(parents=True)
    (version / "saved_model.pb").touch()
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=5)
    made = blessing("m", pushed=f"serving/small/{VERSION}", blessed_at=at)
    (blessed / "00000001.json").write_text(made.model_dump_json())
    pushed = record(name="small", pushed=Pushed(version=VERSION, path=str(version)), warnings=["drift: hour is far"])
    leave(tmp_path, FIRST, pushed)
    return tmp_path


def test_a_healthy_root_says_what_is_live_and_warns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    done = status(str(root))
    assert done.exit_code == 0
    head, live, last, following, warning, advice = done.stdout.splitlines()
    assert head == "small: healthy, with 1 warning"
    assert f"version {VERSION} in {root}/serving/small; the last push was 5 d" in live
    assert FIRST in last
    assert "no timer" in following
    assert warning.split(maxsplit=1) == ["warning", "drift: hour is far"]
    assert advice.endswith(f"sangam show {root}/runs/{FIRST}")
    [document] = json.loads(status(str(root), "--json").stdout)
    assert (document["live"], document["next"], document["not_pushed"]) == (VERSION, None, False)
    assert (document["last"]["id"], document["warnings"]) == (FIRST, ["drift: hour is far"])


def test_the_exit_code_tells_refused_from_failed_and_the_next_start_is_that_of_the_timer(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(root, SECOND, refused([], gate(False, "auc is low")).model_copy(update={"name": "small"}))
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "crontab").write_text(
        f"#!/bin/sh\necho '30 2 * * * sangam schedule run s.yaml --root {root} >/dev/null'\n"
    )
    (programs / "crontab").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/bin")
    done = status(str(root), "--json")
    assert done.exit_code == 3
    [document] = json.loads(done.stdout)
    assert document["next"]["by"] == "cron"
    leave(root, "20240307T020000-1a2b3c4d", record(name="small", status="failed", error="x", blessed=None))
    assert status(str(root)).exit_code == 1
    assert status(str(root), "--name", "other").exit_code != 0


def test_days_without_a_push_fail_and_are_sent_if_asked_for(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_spec(root / "runs" / FIRST, loaded(tmp_path, {"alerts": {"not_pushed_for_days": 3}, "name": "small"}))
    with webhook() as hook:
        monkeypatch.setenv("SANGAM_ALERT_URL", hook.url)
        monkeypatch.setenv("SANGAM_ALERT_KEY", "0123456789abcdef")
        assert status(str(root)).exit_code == 1
        assert hook.received == []
        done = status(str(root), "--alert")
        assert "nothing was pushed for 5 days" in done.stdout
        [told] = [json.loads(got.body) for got in hook.received]
    assert (told["kind"], told["pipeline"], told["live"]) == ("not_pushed", "small", VERSION)
