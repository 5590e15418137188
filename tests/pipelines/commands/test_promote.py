"""`sangam promote` makes a version in the shadow live, drops it, or lets it wait, and tells why."""

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner, Result

from sangam.components.page.facts import Facts
from sangam.components.page.render import draw
from sangam.components.record.store import write_record
from sangam.components.registry.versions import versions, withdrawn
from sangam.pipelines.cli import app
from sangam.pipelines.commands import promote as command
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.errors import UserError
from tests.components.promotion import sample_shadow as sample
from tests.components.promotion.sample_shadow import CANDIDATES, LIVE, PUSHED, SHADOW
from tests.components.record.sample_records import record
from tests.errors import mentions, place_and_value
from tests.fakes.webhook import webhook
from tests.schemas.sample_specs import write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs in which both versions are equally good, and in which the one in the shadow is worse, or half as high."""
    root = tmp_path_factory.mktemp("shadow")
    sample.write_logs(root / "equal", sample.predicted())
    for name, settings in {"worse": {"noise": 20.0}, "lower": {"bias": -1.5}}.items():
        shutil.copytree(root / "equal", root / name)
        sample.add_shadow(root / name / "requests", sample.predicted(**settings))
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "root/serving/small"
    sample.put(folder, LIVE)
    sample.put(folder / "shadow", SHADOW)
    return folder


@pytest.fixture
def promote(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the command, some hours after the push."""

    def run(hours: float, *options: str, log: str = "equal", changes: dict[str, Any] | None = None) -> Result:
        monkeypatch.setattr(command, "utc_now", lambda: PUSHED + datetime.timedelta(hours=hours))
        spec = write(tmp_path / "spec.yaml", sample.document(changes))
        arguments = [str(spec), "--data", str(logs / log), "--root", str(tmp_path / "root"), *options]
        return CliRunner().invoke(app, ["promote", *arguments], env={"COLUMNS": "250"})

    return run


def told(done: Result) -> Any:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return json.loads(done.stdout)


def test_a_version_within_the_bounds_is_live_after_its_hours_and_one_command_takes_it_back(
    promote: Any, folder: Path
) -> None:
    early = promote(11.5)
    assert early.exit_code == ExitCode.DONE, early.output
    assert mentions(early.output, f"version {SHADOW} in the shadow of {LIVE}: waits: 11.5 of 12 hours")
    assert versions(folder) == [LIVE]
    done = promote(12)
    assert done.exit_code == ExitCode.DONE, done.output
    assert mentions(done.output, "made live: within the bounds after 12.0 hours: like AUC +0.0146")
    assert versions(folder) == [LIVE, SHADOW]
    assert mentions((folder / SHADOW / "MODEL_CARD.md").read_text(), f"Made live ... shadow of {LIVE} ... AUC")
    assert json.loads((folder / "shadow" / f"{SHADOW}.json").read_text())["verdict"] == "promoted"
    assert mentions(promote(13).output, "no version waits")
    back = CliRunner().invoke(app, ["rollback", str(folder), "--because", "likes fell"])
    assert back.exit_code == ExitCode.DONE, back.output
    assert versions(folder) == [LIVE]


@pytest.mark.parametrize(("log", "why"), [("worse", "AUC is lower"), ("lower", "predicted / observed")])
def test_one_that_is_worse_beyond_doubt_is_dropped_before(promote: Any, folder: Path, log: str, why: str) -> None:
    tried = told(promote(11, "--dry-run", "--json", log=log))
    assert (tried["decision"], tried["is_done"]) == ("drop", False)
    assert versions(folder / "shadow") == [SHADOW]
    done = promote(11, log=log)
    assert done.exit_code == ExitCode.REJECTED, done.output
    assert (versions(folder), versions(folder / "shadow")) == ([LIVE], [])
    [(version, record)] = withdrawn(folder).items()
    assert version == SHADOW
    assert mentions(record.because, f"like: {why}")


def test_the_comparison_is_scikit_learns_of_the_rows_whose_window_is_over(promote: Any, folder: Path) -> None:
    hours, both = 8, sample.predicted()
    over = int((hours * 3600 - 60 - sample.WINDOW_S - 0.5) // sample.EVERY_S) + 1
    seen = told(promote(hours, "--json"))
    [task] = seen["comparison"]["tasks"]
    rows = slice(0, over * CANDIDATES)
    labels, live, shadow = (each[rows] for each in (both.labels, both.live, both.shadow))
    assert (task["examples"], task["positives"]) == (over * CANDIDATES, labels.sum())
    assert seen["comparison"]["left_out"] == {
        "the window of their actions is not over": (sample.REQUESTS - over) * CANDIDATES
    }
    expected = [roc_auc_score(labels, scores.astype(np.float32)) for scores in (live, shadow)]
    assert (task["auc"]["live"], task["auc"]["shadow"]) == pytest.approx(expected)
    assert task["calibration"]["shadow"] == pytest.approx(shadow.sum() / labels.sum(), rel=1e-5)


def test_without_a_user_each_request_is_by_itself(promote: Any, folder: Path) -> None:
    found = told(promote(24, "--json", "--dry-run", changes={"evaluation": {}}))["comparison"]
    assert (found["by"], found["tasks"][0]["users"]) == ("request", sample.REQUESTS)


def test_too_little_is_told_and_dropped_at_twice_the_hours(promote: Any, folder: Path) -> None:
    changes = {"push.least_users": 10_000}
    assert mentions(promote(20, changes=changes).output, "waits: too little was seen of like")
    done = promote(24, changes=changes)
    assert done.exit_code == ExitCode.REJECTED
    assert mentions(done.output, "dropped: undecided after 24 hours: too little was seen of like")


def test_what_another_version_answered_does_not_count(promote: Any, folder: Path) -> None:
    sample.put(folder, "20240306002")
    found = told(promote(20, "--json"))
    assert found["decision"] == "wait"
    assert list(found["comparison"]["left_out"]) == ["answered by another version than 20240306002"]


def test_full_versions_of_online_training_are_the_live_one(promote: Any, folder: Path, tmp_path: Path) -> None:
    full = sample.put(folder, "20240306002")
    (full / deltas.LINEAGE_FILE).parent.mkdir(exist_ok=True)
    deltas.write_lineage(full, folder, LIVE, 0)
    found = told(promote(24, "--json", "--dry-run"))
    assert (found["live"], found["comparison"]["left_out"]) == ("20240306002", {})


@pytest.mark.parametrize("there", [["requests"], []])
def test_without_actions_or_requests_a_version_waits_and_is_told_why(
    promote: Any, folder: Path, logs: Path, tmp_path: Path, there: list[str]
) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    for name in there:
        (root / name).symlink_to(logs / "equal" / name)
    found = told(promote(20, "--json", log=str(root)))
    assert (found["decision"], found["comparison"]["tasks"][0]["examples"]) == ("wait", 0)
    lacking = {"their actions may be on days without files": sample.REQUESTS * CANDIDATES}
    assert found["comparison"]["left_out"] == (lacking if there else {})


def test_one_that_is_older_than_the_live_one_is_dropped(promote: Any, folder: Path) -> None:
    sample.put(folder, "20240308001")
    done = promote(1)
    assert mentions(done.output, "dropped: version 20240308001, which is newer, is live")
    assert done.exit_code == ExitCode.REJECTED


def test_a_person_decides_with_a_reason(promote: Any, folder: Path) -> None:
    done = told(promote(1, "--now", "--because", "a fix of prices", "--json"))
    assert (done["decision"], done["is_done"], done["comparison"]) == ("promote", True, None)
    assert mentions((folder / SHADOW / "MODEL_CARD.md").read_text(), "Made live by ... because a fix of prices")
    sample.put(folder / "shadow", "20240309001")
    assert promote(1, "--drop", "--because", "not needed").exit_code == ExitCode.DONE
    assert withdrawn(folder)["20240309001"].because == "not needed"


def test_the_page_of_the_run_and_an_alert_tell_why(
    promote: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(tmp_path / "root/runs/20240308T050000-1a2b3c4d")
    run.path.mkdir(parents=True)
    pushed = {"version": SHADOW, "path": str(folder / SHADOW), "shadow_of": LIVE}
    ended = record(name="small", path=str(run.path), run=run.path.name, status="pushed", pushed=pushed)
    write_record(ended)
    draw(ended, Facts())
    assert mentions(run.page.read_text(), f"waits in the shadow of {LIVE}; `sangam promote` makes")
    monkeypatch.setenv("SANGAM_ALERT_KEY", "0123456789abcdef")
    with webhook() as hook:
        monkeypatch.setenv("SANGAM_ALERT_URL", hook.url)
        assert told(promote(12, "--json", changes={"alerts": {}}))["problems"] == []
    [got] = [json.loads(each.body) for each in hook.received]
    assert (got["kind"], got["run"], got["live"], got["page"]) == ("promoted", run.path.name, SHADOW, str(run.page))
    assert mentions(got["reason"], f"version {SHADOW}: made live ... within the bounds")
    assert mentions(run.page.read_text(), f"Made live at 2024-03-08 18:00 UTC after the shadow of {LIVE}")
    assert mentions(CliRunner().invoke(app, ["show", str(run.path)]).output, "made live at 2024-03-08 18:00 UTC")


@pytest.mark.parametrize(
    ("options", "changes", "place", "value"),
    [
        (["--now"], {}, "--because", "got ''"),
        (["--because", "x"], {}, "--because", "got 'x'"),
        (["--now", "--drop", "--because", "x"], {}, "--now", "got both"),
        ([], {"push": {"kind": "none"}, "serving": {}}, "push", "got none"),
        ([], {"push": {"kind": "directory", "path": "serving/small"}, "serving": {}}, "push.after", "got none"),
    ],
)
def test_what_makes_no_sense_is_refused(
    promote: Any, options: list[str], changes: dict[str, Any], place: str, value: str
) -> None:
    done = promote(1, *options, changes=changes)
    assert isinstance(done.exception, UserError), done.output
    with pytest.raises(UserError, match=place_and_value(place, value)):
        raise done.exception
