"""A backfill on the server: which dates are run, in what order, what stops them, and how they go on."""

import datetime
import os
import signal
from pathlib import Path

import pytest

from sangam.components.record.run import Step
from sangam.pipelines.backfill import kubeflow
from sangam.pipelines.backfill.kubeflow import PATIENCE, Choices
from sangam.pipelines.deploy.errors import ApiError
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from tests.components.record.sample_steps import write_step
from tests.errors import mentions, place_and_value, tells
from tests.fakes.kfp_api import Fault
from tests.fakes.kfp_tasks import Plot
from tests.pipelines.deploy.sample_server import IMAGE, OTHER_IMAGE, Crash, World

DATES = ("2024-03-01", "2024-03-02", "2024-03-03")
RUNS_POST = r"POST /apis/v2beta1/runs$"


def test_dates_are_run_in_order_one_after_the_other(world: World) -> None:
    going: list[int] = []
    world.server.after = lambda request: going.append(
        sum(run["state"] in ("PENDING", "RUNNING") for run in world.store.runs.values())
    )
    assert world.backfill(*DATES) == 0
    assert world.dates_run() == list(DATES)
    assert max(going) == 1
    lines = world.lines().splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        [date, state] for date in DATES for state in ("started", "succeeded")
    ]
    assert lines[-1] == "all 3 dates have succeeded"


def test_runs_are_named_after_ranker_date_and_what_they_depend_on(world: World) -> None:
    world.backfill(DATES[0])
    (run,) = world.store.runs.values()
    assert run["display_name"].startswith("short-video-backfill-2024-03-01-")
    assert run["runtime_config"]["parameters"] == {
        "date": "2024-03-01",
        "data_root": "/sangam/data",
        "pipeline_root": "/sangam/root",
    }


def test_dates_that_have_succeeded_are_not_run_again(world: World) -> None:
    world.backfill(*DATES[:2])
    world.lines()
    assert world.backfill(*DATES) == 0
    assert world.dates_run() == list(DATES)
    assert [line.split()[1] for line in world.lines().splitlines()[:2]] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("change", ["spec", "image"])
def test_dates_are_run_again_with_another_spec_or_image(world: World, change: str) -> None:
    world.backfill(DATES[0])
    if change == "spec":
        world.change_spec()
    world.backfill(DATES[0], image=OTHER_IMAGE if change == "image" else IMAGE)
    assert world.dates_run() == [DATES[0]] * 2


def test_a_failed_date_stops_those_after_it_and_says_why(world: World) -> None:
    world.store.plans = {DATES[1]: ["RUNNING", "FAILED"]}
    assert world.backfill(*DATES) == 1
    assert world.dates_run() == list(DATES[:2])
    last = world.lines().splitlines()[-1]
    assert last.startswith("2024-03-02 failed    run run-")
    assert mentions(last, "step trainer: `kubectl logs -n kubeflow -c main -l pipeline/runid=run-")
    assert last.endswith("with --retry-failed")


def test_a_failed_date_says_why_where_the_pipeline_root_is_mounted(world: World, tmp_path: Path) -> None:
    world.root = str(tmp_path)
    world.store.plans = {DATES[0]: ["RUNNING", "FAILED"]}

    def leave_reason(request: str) -> None:
        for run in world.store.runs:
            failed = Step("trainer", "failed", error="rank 1 was lost: exit 137")
            write_step(Root(world.root).run(run), failed)

    world.server.after = leave_reason
    world.backfill(DATES[0])
    assert "step trainer: rank 1 was lost: exit 137; later dates" in world.lines().splitlines()[-1]


def test_a_failed_date_is_tried_again_only_when_asked_to(world: World) -> None:
    world.store.plans = {DATES[1]: ["RUNNING", "FAILED"]}
    world.backfill(*DATES)
    assert world.backfill(*DATES) == 1
    assert world.dates_run() == list(DATES[:2])
    assert tells(world.lines(), "2024-03-02 earlier", "failed ... run run-")
    world.store.plans = {}
    assert world.backfill(*DATES, choices=Choices(retry_failed=True)) == 0
    assert world.dates_run() == [DATES[0], DATES[1], DATES[1], DATES[2]]


def test_a_run_that_is_going_is_adopted(world: World) -> None:
    world.store.plans = {DATES[0]: ["RUNNING"] * 3 + ["SUCCEEDED"]}
    world.crash_before = 0

    def crash() -> None:
        raise Crash

    world.whenever = crash
    with pytest.raises(Crash):
        world.backfill(*DATES)
    world.whenever = lambda: None
    world.lines()
    assert world.backfill(*DATES) == 0
    assert world.dates_run() == list(DATES)
    assert world.lines().splitlines()[0] == f"2024-03-01 continues  run {next(iter(world.store.runs))} (running)"


@pytest.mark.parametrize("is_handled", [True, False])
@pytest.mark.parametrize("status", [None, 500, 503, 409])
def test_a_run_whose_start_was_not_answered_is_started_once(world: World, is_handled: bool, status: int | None) -> None:
    world.server.faults = [Fault("POST", "/runs$", status=status, is_handled=is_handled)]
    assert world.backfill(*DATES) == 0
    assert world.dates_run() == list(DATES)
    assert world.server.count(RUNS_POST) == (3 if is_handled else 4)


def test_of_a_run_that_was_started_twice_after_all_the_older_is_kept(world: World) -> None:
    """Two clients that find nothing at the same moment, or an answer later than all patience."""

    def after(request: str) -> None:
        if request == "POST /apis/v2beta1/runs" and len(world.store.runs) == 1:
            (run,) = world.store.runs.values()
            fields = ("display_name", "experiment_id", "pipeline_version_reference", "runtime_config")
            world.store.create_run({field: run[field] for field in fields})

    world.server.after = after
    assert world.backfill(DATES[0]) == 0
    assert [run["state"] for run in world.store.runs.values()] == ["SUCCEEDED", "FAILED"]


def test_a_run_that_shows_up_long_after_it_was_asked_for_is_not_a_second_one(world: World) -> None:
    """The server starts the workflow, fails, and enters the run when it sees the workflow."""
    world.server.faults = [Fault("POST", "/runs$", status=500)]
    world.store.plans = {DATES[0]: ["RUNNING"] * 4 + ["SUCCEEDED"]}

    def whenever() -> None:
        if len(world.store.runs) == 1:
            (run,) = world.store.runs.values()
            fields = ("display_name", "experiment_id", "pipeline_version_reference", "runtime_config")
            ghost = world.store.create_run({field: run[field] for field in fields})
            ghost["created_at"] = "2024-03-07T11:59:00Z"

    world.whenever = whenever
    assert world.backfill(DATES[0]) == 0
    assert [run["state"] for run in world.store.runs.values()] == ["FAILED", "SUCCEEDED"]


def test_a_run_whose_pod_does_not_start_is_told_once(world: World) -> None:
    world.store.plans = {DATES[0]: ["RUNNING"] * 60 + ["SUCCEEDED"]}

    def after(request: str) -> None:
        for run in world.store.runs:
            world.store.plots[run] = Plot("example-gen", "executor")

    world.server.after = after
    assert world.backfill(DATES[0]) == 0
    (run,) = world.store.runs
    told = [line for line in world.lines().splitlines() if line.startswith("still waiting")]
    assert len(told) == 1
    assert mentions(
        told[0], f"{run} ... 2024-03-07 12:00 UTC: kubectl describe pods -n kubeflow -l pipeline/runid={run}"
    )


def test_another_run_of_the_ranker_is_waited_for(world: World) -> None:
    world.deploy()
    (schedule,) = world.store.recurring
    fired = world.store.fire(schedule)["run_id"]
    world.store.set_state(fired, "RUNNING")
    slept: list[str] = []

    def whenever() -> None:
        slept.append(fired)
        assert len(world.store.runs) == 1 or world.store.runs[fired]["state"] == "SUCCEEDED"
        if len(slept) == 3:
            world.store.set_state(fired, "SUCCEEDED")

    world.whenever = whenever
    world.lines()
    assert world.backfill(DATES[0]) == 0
    assert f"2024-03-01 waits for  run {fired} (fired-" in world.lines()


def run_without_workflow(world: World) -> str:
    """Returns a run that never ends: one of a schedule that was retired, retried in Kubeflow's pages."""
    world.deploy()
    (schedule,) = world.store.recurring
    run = str(world.store.fire(schedule)["run_id"])
    world.store.set_state(run, "FAILED")
    world.store.delete_recurring(schedule)
    world.store.retry(run)
    world.lines()
    return run


def test_a_run_that_never_ends_is_not_waited_for_without_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeflow, "OTHERS_LIMIT", datetime.timedelta(minutes=10))
    run = run_without_workflow(world)
    with pytest.raises(UserError, match=place_and_value("--on kfp", f"(got {run}, fired-")) as refused:
        world.backfill(DATES[0])
    assert f"--ignore-run {run}" in str(refused.value)
    assert sum(world.slept) == pytest.approx(600, abs=60)
    assert len(world.store.runs) == 1
    assert world.backfill(DATES[0], choices=Choices(ignored_runs=frozenset({run}))) == 0


def test_a_run_that_is_ignored_must_be_one(world: World) -> None:
    with pytest.raises(UserError, match=place_and_value("--ignore-run", "(got run-x; unfinished: none)")):
        world.backfill(DATES[0], choices=Choices(ignored_runs=frozenset({"run-x"})))


def test_a_second_run_that_cannot_be_ended_is_not_ended_again_and_again(world: World) -> None:
    """The first request sets its state, fails, and from then on the server finds nothing to end."""

    def after(request: str) -> None:
        if request == "POST /apis/v2beta1/runs" and len(world.store.runs) == 1:
            (run,) = world.store.runs.values()
            fields = ("display_name", "experiment_id", "pipeline_version_reference", "runtime_config")
            second = world.store.create_run({field: run[field] for field in fields})
            world.store.without_workflow.add(second["run_id"])

    world.server.after = after
    assert world.backfill(DATES[0]) == 0
    assert [run["state"] for run in world.store.runs.values()] == ["SUCCEEDED", "CANCELING"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_leaves_the_run_and_says_how_to_go_on(world: World, number: signal.Signals, code: int) -> None:
    world.whenever = lambda: os.kill(os.getpid(), number)
    assert world.backfill(*DATES) == code
    (run,) = world.store.runs.values()
    assert run["state"] in ("PENDING", "RUNNING")
    last = world.lines().splitlines()[-1]
    assert mentions(last, f"{number.name} ... {run['run_id']}")
    world.whenever = lambda: None
    assert world.backfill(*DATES) == 0
    assert world.dates_run() == list(DATES)


def test_a_server_that_is_away_for_a_while_is_waited_for(world: World) -> None:
    world.server.faults = [Fault("GET", "/runs/", status=503, times=12)]
    assert world.backfill(DATES[0]) == 0
    said = [line for line in world.lines().splitlines() if line.startswith("still trying")]
    assert len(said) == 1


def test_a_server_that_stays_away_ends_the_backfill(world: World) -> None:
    world.server.faults = [Fault("GET", "/runs/", status=503, times=10_000)]
    with pytest.raises(UserError, match=r"503.*run-\d+"):
        world.backfill(DATES[0])
    assert sum(world.slept) > PATIENCE.total_seconds()


def test_a_server_that_refuses_ends_the_backfill_at_once(world: World) -> None:
    world.server.forbidden = "POST .*/runs$"
    with pytest.raises(
        ApiError, match=place_and_value("--host", "create runs (got ... 403: User 'eve' is not authorized")
    ):
        world.backfill(DATES[0])
    assert world.slept == []
