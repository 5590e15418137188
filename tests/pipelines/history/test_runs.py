"""Looking at runs from the command line, in roots of made-up runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.record.journal import Journal
from sangam.components.record.lock import locked
from sangam.components.record.run import Pushed, RunRecord
from sangam.components.record.store import find_run, link_latest, write_record
from sangam.components.reports.evaluation import GateVerdict, TaskVerdict
from sangam.components.reports.spec_file import write_spec
from sangam.pipelines.history.show import read_shown
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import digest
from tests.components.record.sample_records import gate, record, refused
from tests.errors import mentions, place_and_value
from tests.paths import SPECS
from tests.pipelines.history.command import sangam
from tests.schemas.sample_specs import loaded

FIRST, SECOND, THIRD = (f"2024030{day}T020000-1a2b3c4d" for day in (5, 6, 7))


def task(auc: float, *gates: GateVerdict, calibration: float = 1.0) -> TaskVerdict:
    return TaskVerdict(metrics={"auc": auc, "calibration": calibration}, gates=list(gates))


def step(state: str = "ran", seconds: float = 2.0) -> dict[str, Any]:
    return {"state": state, "seconds": seconds, "cpu_seconds": 1.0, "peak_memory_bytes": 10**6}


def leave(root: Path, run: str, told: RunRecord | None) -> Path:
    """Leaves a run's folder."""
    folder = root / "runs" / run
    (folder / "logs").mkdir(parents=True)
    if told is not None:
        changes = {"run": run, "path": str(folder), "data": "/logs"}
        write_record(told.model_copy(update=changes))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root of three runs: pushed, failed, refused."""
    version = tmp_path / "serving" / "small" / "20240305001"
    version.mkdir(parents=True)
    pushed = Pushed(version=version.name, path=str(version))
    tasks = {"like": task(0.7, gate(True, "auc 0.7000 is above the bound 0.6000")), "share": task(0.8, calibration=0.8)}
    whole = {"example_gen": step("cached"), "trainer": step(seconds=8.0)}
    first = record(name="small", date="2024-03-05", tasks=tasks, pushed=pushed, steps=whole, exit_code=0)
    leave(tmp_path, FIRST, first)
    failed = leave(
        tmp_path,
        SECOND,
        record(
            name="small",
            date="2024-03-06",
            status="failed",
            failed_step="trainer",
            error="training: rank 1 was killed\nAll logs: here",
            blessed=None,
            steps={"example_gen": step(), "trainer": step("failed")},
            exit_code=1,
        ),
    )
    (failed / "logs" / "trainer.log").write_text("one\nrank 1 says: no memory\n")
    told = refused([], gate(False, "auc 0.5000 is below the bound 0.6000"))
    leave(tmp_path, THIRD, told.model_copy(update={"name": "small", "date": "2024-03-07", "exit_code": 3}))
    return tmp_path


def test_runs_are_listed_newest_first_in_the_words_for_kubeflow(root: Path) -> None:
    head, *lines = sangam("runs", str(root)).stdout.splitlines()
    assert " ".join(head.split()) == "date run state started (UTC) took failed step version metric pred/obs warnings"
    rows = [line.split() for line in lines]
    assert [row[:5] for row in rows] == [
        ["2024-03-07", THIRD, "refused", "2024-03-07", "02:00"],
        ["2024-03-06", SECOND, "failed", "2024-03-06", "02:00"],
        ["2024-03-05", FIRST, "pushed", "2024-03-05", "02:00"],
    ]
    assert rows[1][-1] == "trainer"
    # Of the task that is furthest from 1.
    assert rows[2][-5:] == ["20240305001", "mean", "auc", "0.7500", "0.800"]
    assert len(sangam("runs", str(root), "--last", "2").stdout.splitlines()) == 3


def test_the_json_of_a_run_has_the_keys_that_one_on_kubeflow_has(root: Path) -> None:
    newest, failed, first = json.loads(sangam("runs", str(root), "--json").stdout)
    assert (newest["state"], failed["state"], first["state"]) == ("refused", "failed", "pushed")
    assert failed["failed_step"] == "trainer"
    assert failed["steps"][1] == {"name": "trainer", "state": "failed", "seconds": 2.0}
    assert (first["id"], first["name"], first["pushed"]) == (FIRST, "small", "20240305001")
    assert (first["started"], first["finished"]) == ("2024-03-05T02:00:00Z", "2024-03-05T02:00:01Z")
    assert first["metrics"]["share"] == {"auc": 0.8, "calibration": 0.8}


def test_a_run_without_a_summary_is_running_while_the_root_is_locked(root: Path) -> None:
    leave(root, "20240308T020000-1a2b3c4d", None)
    with locked(root):
        assert sangam("runs", str(root), "--last", "1").stdout.splitlines()[1].split()[1] == "running"
    assert sangam("runs", str(root), "--last", "1").stdout.splitlines()[1].split()[1] == "killed"
    # The look at the lock does not keep it.
    with locked(root):
        pass


@pytest.mark.parametrize(
    "given", ["{root}", "{root}/latest", "{root}/runs/latest", "{root}/runs/20240307", "{root}/20240307", "{run}"]
)
def test_a_run_may_be_named_in_several_ways(root: Path, given: str) -> None:
    path = Path(given.format(root=root, run=root / "runs" / THIRD / "summary.json"))
    assert find_run(path).id == THIRD


def test_latest_is_a_link_to_the_run_that_started_last_and_no_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in (FIRST, THIRD):
        link_latest(Root(str(root)).run(run))
        assert (root / "runs" / "latest").resolve() == root / "runs" / run
    assert len(sangam("runs", str(root)).stdout.splitlines()) == 4
    for folder, given in ((root / "runs" / "latest", "."), (root, "runs/latest"), (root, ".")):
        monkeypatch.chdir(folder)
        assert find_run(Path(given)).id == THIRD


@pytest.mark.parametrize(
    ("given", "place"), [("runs/2024030", FIRST), ("runs/2025", "2025"), ("nowhere/x", "nowhere/x")]
)
def test_a_run_that_is_not_one_is_an_error(root: Path, given: str, place: str) -> None:
    with pytest.raises(UserError, match=place_and_value("RUN", place)):
        find_run(root / given)


def test_runs_on_kubeflow_are_not_runs_of_this_machine(root: Path) -> None:
    (root / "runs" / "3f2504e0-4f89-41d3-9a0c-0305e82c3301" / "failures").mkdir(parents=True)
    assert len(sangam("runs", str(root)).stdout.splitlines()) == 4
    assert find_run(root).id == THIRD


def test_damaged_metadata_is_told(root: Path) -> None:
    (root / "metadata.sqlite").write_text("no database")
    with pytest.raises(UserError, match=place_and_value(str(root / "metadata.sqlite"), "")):
        read_shown(find_run(root))


def test_show_gives_the_verdict_first(root: Path) -> None:
    lines = sangam("show", str(root / "runs" / FIRST)).stdout.splitlines()
    assert lines[0] == "pushed as version 20240305001: every gate passed"
    assert any(line.split()[:3] == ["like", "auc", "0.7000"] for line in lines)
    assert any(line.split() == ["trainer", "ran", "8.0", "s", "1.00", "MB"] for line in lines)
    assert sangam("show", str(root)).stdout.startswith(
        "not pushed: a gate refused the model: like: auc 0.5000 is below the bound 0.6000"
    )
    document = json.loads(sangam("show", str(root), "--json").stdout)
    assert (document["state"], document["summary"]["run"]) == ("refused", THIRD)


def test_show_says_what_has_become_of_the_version(root: Path) -> None:
    (root / "serving" / "small" / "20240305001").rmdir()
    assert mentions(sangam("show", str(root / FIRST)).stdout.splitlines()[0], "pushed ... removed since")


def test_why_names_the_cause_the_log_and_the_command_that_resumes(root: Path, tmp_path: Path) -> None:
    write_spec(root / "runs" / SECOND, loaded(tmp_path))
    told = sangam("why", str(root / SECOND)).stdout
    assert told.count("training: rank 1 was killed") == 1
    assert "rank 1 says: no memory" in told
    assert "exit code: 1" in told
    run = root / "runs" / SECOND
    assert f"sangam run {run}/spec.json --date 2024-03-06 --data /logs --root {root}" in told


def test_why_of_a_mistake_has_no_log_and_takes_the_spec_as_it_is_now(root: Path, tmp_path: Path) -> None:
    told = record(name="small", status="failed", failed_step="example_gen", error="a.csv: no such column", exit_code=2)
    folder = leave(root, "20240308T020000-1a2b3c4d", told)
    (folder / "logs" / "example_gen.log").write_text("Traceback (most recent call last):\n")
    write_spec(folder, loaded(tmp_path))
    shown = sangam("why", str(folder)).stdout
    assert "Traceback" not in shown
    assert f"log: {folder}/logs/example_gen.log" in shown
    assert "sangam run SPEC " in shown


def test_why_of_a_killed_run_names_its_step_and_the_whole_command(root: Path) -> None:
    folder = leave(root, "20240308T020000-1a2b3c4d", None)
    journal = Journal()
    journal.opened(folder, date="2024-03-07", data="/logs")
    journal.step_started("trainer")
    for name in ("trainer", "run"):
        (folder / "logs" / f"{name}.log").write_text(f"the log of {name}\n")
    shown = sangam("why", str(folder)).stdout
    assert "killed in trainer: " in shown
    assert "the log of trainer" in shown
    assert f"--date 2024-03-07 --data /logs --root {root}" in shown


def test_why_of_a_refused_run_gives_the_gate_and_of_a_good_one_says_so(root: Path) -> None:
    document = json.loads(sangam("why", str(root), "--json").stdout)
    assert f"sangam diff {root}/runs/{FIRST} {root}/runs/{THIRD}" in document["advice"][0]
    assert document["causes"] == ["like: auc 0.5000 is below the bound 0.6000"]
    assert document["exit_code"] == 3
    assert any("sangam bless" in advice for advice in document["advice"])
    assert "pushed as version" in sangam("why", str(root / FIRST)).stdout


def test_scores_that_nobody_may_override_are_not_said_to_be_blessed(root: Path) -> None:
    never = GateVerdict(kind="finite", metric="auc", bound=0, value=None, passed=False, reason="scores are not finite")
    leave(root, "20240309T020000-1a2b3c4d", refused([], never))
    assert "sangam bless" not in sangam("why", str(root)).stdout


def test_diff_tells_the_spec_by_path_and_metrics_with_their_difference(root: Path, tmp_path: Path) -> None:
    write_spec(root / "runs" / FIRST, loaded(tmp_path))
    changed = {"training.batch_size_per_rank": 32, "gates.0.at_least": 0.7}
    write_spec(root / "runs" / THIRD, loaded(tmp_path, changed))
    document = json.loads(sangam("diff", str(root / FIRST), str(root / THIRD), "--json").stdout)
    found = {change["what"]: (change["old"], change["new"]) for change in document["spec"]}
    assert found == {"training.batch_size_per_rank": (16, 32), "gates.0.at_least": (0.6, 0.7)}
    assert {change["what"] for change in document["run"]} == {"state", "date"}
    assert document["metrics"][0] == {"what": "like auc", "old": 0.7, "new": None, "difference": None}
    printed = sangam("diff", str(root / FIRST), str(root / THIRD)).stdout
    assert any(mentions(line, "gates.0.at_least ... 0.6 ... -> 0.7 ... +0.1") for line in printed.splitlines())


def test_diff_of_a_run_with_itself_finds_nothing(root: Path) -> None:
    assert "no difference" in sangam("diff", str(root), str(root)).stdout


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_spec_of_a_run_gives_the_same_run_again(path: Path, tmp_path: Path) -> None:
    spec = load_spec(path)
    write_spec(tmp_path, spec)
    assert digest(load_spec(tmp_path / "spec.json")) == digest(spec)
