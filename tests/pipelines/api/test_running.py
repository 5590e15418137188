"""`sangam.run`: what it starts, prints, returns and raises. docs/python.md's test has a whole run."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sangam
from sangam.pipelines.api import running
from tests.errors import mentions, place_and_value
from tests.paths import SPECS
from tests.pipelines.processes import is_running

pytestmark = pytest.mark.processes

DEMO = SPECS / "short_video.yaml"
DATE = "2024-03-07"


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    for name in ("data", "root"):
        (tmp_path / name).mkdir()
    return {"data": tmp_path / "data", "root": tmp_path / "root"}


@pytest.fixture
def pretend(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has a fake take the place of the run, which ends as it is told to."""
    monkeypatch.setattr(running, "_MODULE", "tests.pipelines.api.fake_run")
    return lambda **told: (folders["root"] / "pretend.json").write_text(json.dumps(told))


def test_a_mistake_is_raised_before_anything_starts(folders: dict[str, Path]) -> None:
    with pytest.raises(sangam.UserError, match=place_and_value("--date", "short_video")):
        sangam.run(DEMO, **folders)
    with pytest.raises(sangam.SpecError, match=place_and_value("tasks", "missing")):
        sangam.run({"name": "x"}, date=DATE, **folders)
    with pytest.raises(sangam.UserError, match=place_and_value("--data", "nowhere")):
        sangam.run(DEMO, date=DATE, data=folders["data"] / "nowhere", root=folders["root"])
    assert not list(folders["root"].iterdir())


def test_missing_logs_are_raised_and_the_run_is_recorded(folders: dict[str, Path]) -> None:
    with pytest.raises(sangam.UserError, match=place_and_value("data.pattern", "(got none from 2024-03-01")) as error:
        sangam.run(DEMO, date=DATE, **folders)
    run = sangam.Root(folders["root"]).latest
    assert run.state == "failed"
    assert str(error.value).splitlines()[0] in run.why()
    assert run.spec == sangam.Spec.load(DEMO)


def test_a_spec_is_handed_over_as_it_is(
    folders: dict[str, Path], pretend: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    pretend(code=0, status="blessed")
    spec = sangam.Spec.load(DEMO)
    run = sangam.run(spec.to_dict(), date=DATE, reread=True, **folders)
    assert (run.state, run.id) == ("blessed", "20240308T020000-1a2b3c4d")
    called = json.loads((folders["root"] / "called.json").read_text())
    assert sangam.Spec.from_yaml(called["spec"]) == spec
    options = ["--date", DATE, "--data", str(folders["data"]), "--root", str(folders["root"]), "--json", "--reread"]
    assert called["arguments"][2:] == options
    assert capfd.readouterr().out == "trainer 2 s ünning\n"


@pytest.mark.parametrize(("state", "code"), [("refused", 3), ("failed", 1)])
def test_a_run_without_a_model_is_returned_or_with_check_raised(
    folders: dict[str, Path], pretend: Any, state: str, code: int
) -> None:
    pretend(code=code, status=state, reason="rank 1 was killed")
    with pytest.raises(sangam.RunFailed) as error:
        sangam.run(DEMO, date=DATE, check=True, **folders)
    assert error.value.run.state == state
    assert mentions(str(error.value), "rank 1 was killed") == (state == "failed")


@pytest.mark.parametrize(
    ("told", "place", "value"),
    [
        ({"code": 4, "error": "root: is in use (got 7)"}, "root", "(got 7)"),
        ({"code": 2, "error": json.dumps({"error": "logs: are wrong (got x)", "exit_code": 2})}, "logs", "(got x)"),
        ({"code": 0, "signal": signal.SIGKILL}, "run", "(got exit code -9)"),
    ],
)
def test_why_no_run_came_to_be_is_raised(
    folders: dict[str, Path], pretend: Any, told: dict[str, Any], place: str, value: str
) -> None:
    pretend(**told)
    with pytest.raises(sangam.UserError, match=place_and_value(place, value)):
        sangam.run(DEMO, date=DATE, **folders)


def test_ctrl_c_stops_the_run_and_waits_for_its_record(folders: dict[str, Path], pretend: Any) -> None:
    pretend(hangs=True, code=0)
    pid = folders["root"] / "pid"

    def interrupt() -> None:
        while not pid.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    # A worker of pytest-xdist ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            sangam.run(DEMO, date=DATE, **folders)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sangam.Root(folders["root"]).latest.state == "stopped"
    assert not is_running(int(pid.read_text()))
