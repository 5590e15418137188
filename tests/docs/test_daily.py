"""What docs/daily.md shows works: the receiver of alerts, the pieces of specs, and the table of exit codes."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sangam.components.alerts import Event, send
from sangam.components.alerts.event import MAX_REASON
from sangam.components.alerts.sending import signature
from sangam.pipelines.schedule.daily import outcome
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.spec.alerts import Alerts
from tests.fakes.webhook import webhook
from tests.schemas.sample_specs import loaded

KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def doc(repository: Path) -> str:
    return (repository / "docs" / "daily.md").read_text()


def blocks(doc: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", doc, re.DOTALL)


def test_the_receiver_takes_a_new_alert_of_ours_and_no_other(doc: str) -> None:
    [receiver] = blocks(doc, "python")
    names: dict[str, Any] = {}
    exec(receiver, names)
    event = Event(kind="failed", pipeline="p", step="s", date=None, run="r", reason="ä")
    with webhook() as hook:
        environ = {"SANGAM_ALERT_URL": hook.url, "SANGAM_ALERT_KEY": KEY}
        assert send(Alerts(), event, environ) is None
    [got] = hook.received
    seen: set[str] = set()
    assert names["new_alert"](got.headers, got.body, "another key of 16", seen) is None
    assert names["new_alert"](got.headers, got.body + b" ", KEY, seen) is None
    old = str(int(time.time()) - 400)
    again = {"X-Sangam-Timestamp": old, "X-Sangam-Signature": signature(KEY, old, got.body)}
    assert names["new_alert"](again, got.body, KEY, seen) is None
    alert = names["new_alert"](got.headers, got.body, KEY, seen)
    assert (alert["reason"], alert["id"]) == ("ä", event.id)
    assert names["new_alert"](got.headers, got.body, KEY, seen) is None
    [shown] = blocks(doc, "json")
    assert re.findall(r'"(\w+)":', shown) == list(alert)
    assert f"{MAX_REASON:,} characters" in doc


def test_its_pieces_of_specs_are_valid(doc: str, tmp_path: Path) -> None:
    first, second = (YAML(typ="safe").load(block) for block in blocks(doc, "yaml"))
    changes = {"data.arrival": first["data"]["arrival"], "data.pattern": first["data"]["pattern"]}
    assert loaded(tmp_path, changes | second).alerts == Alerts.model_validate(second["alerts"])


def test_every_exit_code_has_its_line(doc: str) -> None:
    codes = re.findall(r"^\| ([0-9, ]+) \|", doc, re.MULTILINE)
    listed = {int(code) for line in codes for code in line.split(",")}
    assert listed == set(ExitCode)
    assert not [code for code in listed - {5, 6, 7} if outcome(code).startswith("exit code")]
