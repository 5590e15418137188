"""What the supervisor tells of a joiner that makes no examples."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sangam.pipelines.online.supervisor import Supervisor
from sangam.schemas.spec.alerts import Alerts
from tests.fakes.webhook import webhook

pytestmark = pytest.mark.slow


def test_a_stall_is_told_once_and_so_is_its_end(tmp_path: Path) -> None:
    said: list[str] = []
    spec = SimpleNamespace(name="feed", alerts=Alerts(timeout_s=5))
    request: Any = SimpleNamespace(base=None, source=tmp_path, root=tmp_path, spec=spec)
    status = tmp_path / "status.json"
    job: Any = SimpleNamespace(stream=SimpleNamespace(joining=str(status), lineage="20240301001"))
    with webhook() as hook:
        environ = {"SANGAM_ALERT_URL": hook.url, "SANGAM_ALERT_KEY": "0123456789abcdef-key"}
        supervisor = Supervisor(request, said.append, environ, lambda: None)
        for reason in ("", "7 rows wait", "8 rows wait", "", "9 rows wait"):
            status.write_text(json.dumps({"stalled_s": 1.0, "stalled": reason, "written": time.time()}))
            supervisor._tell_stall(job)
    assert ["7 rows" in said[0], said[1], "9 rows" in said[2], len(said)] == [
        True,
        "examples are written again",
        True,
        3,
    ]
    assert [json.loads(each.body)["reason"] for each in hook.received] == [said[0], said[2]]
