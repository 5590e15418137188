"""What is told of a deployed ranker and of its runs."""

import contextlib
import datetime
import io
from pathlib import Path

import pytest
from rich.console import Console

from sangam.components.record.run import Step
from sangam.pipelines.deploy.printing import duration, print_runs, print_state
from sangam.pipelines.deploy.state import EXIT_CODES, State, recent_runs, run_document, state_of
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from tests.components.record.sample_steps import write_step
from tests.errors import mentions, place_and_value, tells
from tests.fakes.kfp_store import Refused
from tests.fakes.kfp_tasks import Plot
from tests.pipelines.deploy.sample_server import World


def state(world: World, root: Path | None = None) -> State:
    with world.api() as api:
        return state_of(api, "short_video", world.at, root)


def printed(state: State) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    print_state(state, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def fire(world: World, result: str, minutes: float = 41) -> str:
    """Has the schedule start a run that ends after some minutes, and returns its id."""
    schedule = world.enabled()[0]["recurring_run_id"]
    run = str(world.store.fire(schedule)["run_id"])
    world.store.set_state(run, "RUNNING")
    world.at += datetime.timedelta(minutes=minutes)
    world.store.plans[run] = []
    world.store.set_state(run, result)
    return run


def test_a_ranker_that_has_just_been_deployed_is_healthy(world: World) -> None:
    world.deploy()
    found = state(world)
    assert (found.health, EXIT_CODES[found.health]) == ("healthy", 0)
    text = printed(found)
    assert text.startswith("short_video: healthy\n")
    assert mentions(text, "next run ... 2024-03-08 02:00 UTC ... 14 h 00 min ... 2024-03-07")
    assert "last run   none yet" in text


def test_the_last_run_is_told_step_by_step(world: World) -> None:
    world.deploy()
    world.at = world.at.replace(day=8, hour=2)
    run = fire(world, "SUCCEEDED")
    text = printed(state(world))
    assert mentions(text, "last run ... succeeded ... 2024-03-07 ... 2024-03-08 02:00 UTC ... 41 min 00 s")
    assert run in text
    assert "trainer            succeeded  41 min 00 s" in text
    assert "driver" not in text


def test_a_failed_run_names_the_step_and_the_command_for_its_log(world: World) -> None:
    world.deploy()
    run = fire(world, "FAILED")
    found = state(world)
    assert (found.health, EXIT_CODES[found.health]) == ("failed", 1)
    text = printed(found)
    assert text.startswith("short_video: ")
    assert "trainer            failed" in text
    assert f"kubectl logs -n kubeflow -c main -l pipeline/runid={run} --tail=-1 | grep '^error:'" in text
    assert found.document()["last"]["error"] is None


def test_steps_that_were_never_run_say_so(world: World) -> None:
    world.deploy()
    fire(world, "FAILED")
    found = state(world)
    assert [line.split()[1:] for line in printed(found).splitlines() if "pusher" in line] == [["not", "run"]]
    assert found.document()["last"]["steps"][-1] == {
        "name": "pusher",
        "state": "not run",
        "seconds": None,
        "waits_since": None,
    }


@pytest.mark.parametrize("is_given", [True, False])
def test_a_failed_run_says_why_where_the_pipeline_root_is_mounted(world: World, tmp_path: Path, is_given: bool) -> None:
    world.root = "/no/such" if is_given else str(tmp_path)
    world.deploy()
    run = fire(world, "FAILED")
    folder = Root(str(tmp_path)).run(run)
    write_step(folder, Step("trainer", "failed", error="rank 1 was lost:\n exit 137"))
    write_step(folder, Step("transform", "failed", error="of a try before"))
    found = state(world, tmp_path if is_given else None)
    assert mentions(printed(found), "error ... rank 1 was lost: exit 137")
    assert "kubectl" not in printed(found)
    assert found.document()["last"]["error"] == "rank 1 was lost:\n exit 137"


def test_a_task_of_several_steps_is_told_by_step_where_their_records_can_be_read(world: World, tmp_path: Path) -> None:
    world.root = str(tmp_path)
    world.deploy()
    run = fire(world, "FAILED")
    world.store.plots[run] = Plot("transform")
    folder = Root(str(tmp_path)).run(run)
    for step in (Step("schema_gen", "ran", 2.0), Step("statistics_gen", "failed", 3.0, error="no rows")):
        write_step(folder, step)
    found = state(world)
    shown = [line.split()[:2] for line in printed(found).splitlines()]
    assert [line for line in shown if line[0].startswith(("schema", "stat", "example-v", "transf"))] == [
        ["schema-gen", "succeeded"], ["statistics-gen", "failed"], ["example-validator", "not"], ["transform", "not"],
    ]  # fmt: skip
    assert found.document()["last"]["failed_step"] == "statistics-gen"
    assert "error      no rows" in printed(found)
    write_step(folder, Step("statistics_gen", "running", started_at=world.at.timestamp() - 60))
    world.store.set_state(run, "RUNNING")
    shown = [line.split()[:2] for line in printed(state(world)).splitlines()]
    assert shown[-2:] == [["schema-gen", "succeeded"], ["statistics-gen", "running"]]


def test_a_step_that_goes_on_is_told_with_its_time_so_far(world: World) -> None:
    world.deploy()
    fire(world, "RUNNING", minutes=5)
    found = state(world)
    assert "trainer            running    5 min 00 s" in printed(found)
    assert found.document()["last"]["steps"][-1]["seconds"] == 300


@pytest.mark.parametrize(
    ("release", "waits_for", "attempt"),
    [
        ("2.16.1", "executor", 0),
        ("2.16.1", "driver", 0),
        ("2.17.0", "executor", 1),
        ("2.17.0", "driver", 0),
        ("2.17.0", "driver", 1),
    ],
)
@pytest.mark.parametrize(("minutes", "code"), [(14, 0), (15, 7)])
def test_a_step_whose_pod_does_not_start_is_told_and_soon_an_exit_code(
    world: World, release: str, waits_for: str, attempt: int, minutes: int, code: int
) -> None:
    world.store.tag_name = release
    world.deploy()
    run = fire(world, "RUNNING", minutes=minutes)
    world.store.plots[run] = Plot("transform", waits_for, attempt)
    found = state(world)
    assert EXIT_CODES[found.health] == code
    text = printed(found)
    assert f"transform          pending    waits for its pod since 2024-03-07 12:00 UTC, {minutes} min 00 s" in text
    assert f"kubectl describe pods -n kubeflow -l pipeline/runid={run}" in text
    assert [step.name for step in found.last.steps] == ["example-gen", "transform"] if found.last else False
    last = found.document()["last"]
    assert last["steps"][-1]["waits_since"] == last["waits_since"] == "2024-03-07T12:00:00Z"


@pytest.mark.parametrize(("release", "is_gone"), [("2.16.1", False), ("2.17.0", True)])
def test_a_run_that_ended_two_hours_ago_is_retried_in_kubeflows_pages_only_where_its_workflow_is_kept(
    world: World, release: str, is_gone: bool
) -> None:
    world.store.tag_name = release
    world.deploy()
    run = fire(world, "FAILED")
    world.at += datetime.timedelta(hours=2)
    with pytest.raises(Refused) if is_gone else contextlib.nullcontext():
        world.store.retry(run)
    assert state(world).last


def test_a_pod_that_has_just_been_made_is_no_trouble(world: World) -> None:
    world.deploy()
    run = fire(world, "RUNNING", minutes=0.1)
    world.store.plots[run] = Plot("transform", "executor")
    text = printed(state(world))
    assert "transform          pending    since 2024-03-07 12:00 UTC, 6 s" in text
    assert "waits" not in text


def test_a_run_that_failed_without_a_failed_step_may_have_been_terminated(world: World) -> None:
    world.deploy()
    run = fire(world, "FAILED")
    world.store.plans[run] = []
    world.store.plots[run] = Plot(is_terminated=True)
    text = printed(state(world))
    assert "error      not known here, no step has failed: the run may have been terminated" in text
    assert "kubectl logs" in text


def test_a_run_without_any_pod_waits_too(world: World) -> None:
    world.deploy()
    run = fire(world, "RUNNING", minutes=20)
    world.store.set_state(run, "PENDING")
    world.store.plans[run] = []
    assert state(world).health == "waiting"


@pytest.mark.parametrize("number", [0, 2])
def test_no_schedule_or_two_are_told(world: World, number: int) -> None:
    world.deploy()
    (schedule,) = world.store.recurring.values()
    schedule["status"] = "DISABLED"
    for _ in range(number):
        fields = ("display_name", "experiment_id", "pipeline_version_reference", "max_concurrency", "trigger")
        world.store.create_recurring({**{field: schedule[field] for field in fields}, "mode": "ENABLE"})
    found = state(world)
    assert (found.health, EXIT_CODES[found.health]) == ("unscheduled", 5)
    assert ("more than one" in printed(found).splitlines()[0]) is bool(number)


def test_a_run_that_has_not_started_is_told_an_hour_later(world: World) -> None:
    world.deploy()
    world.at = world.at.replace(day=8, hour=2, minute=59)
    assert state(world).health == "healthy"
    world.at = world.at.replace(hour=3, minute=1)
    found = state(world)
    assert (found.health, EXIT_CODES[found.health]) == ("overdue", 6)
    fire(world, "RUNNING", minutes=0)
    assert state(world).health == "healthy"


def test_a_run_that_takes_longer_than_a_day_holds_the_next_up_and_that_is_told(world: World) -> None:
    world.deploy()
    world.at = world.at.replace(day=8, hour=2)
    fire(world, "RUNNING", minutes=30 * 60)
    found = state(world)
    assert found.health == "overdue"
    text = printed(found)
    assert tells(text.splitlines()[0], "short_video", "due")
    assert mentions(text, "last run ... running ... 2024-03-07")


def test_a_backfill_since_does_not_hide_the_schedules_last_run(world: World) -> None:
    world.deploy()
    world.at = world.at.replace(day=8, hour=2)
    fire(world, "FAILED")
    world.at += datetime.timedelta(minutes=1)
    world.backfill("2024-03-01")
    found = state(world)
    assert found.health == "failed"
    assert mentions(printed(found), "since ... succeeded ... backfill ... 2024-03-01 ... 2024-03-08 02:42 UTC ... run-")


def test_a_date_that_was_run_again_with_success_is_recovered(world: World) -> None:
    world.deploy()
    world.at = world.at.replace(day=8, hour=2)
    fire(world, "FAILED")
    world.at += datetime.timedelta(minutes=1)
    world.backfill("2024-03-07")
    found = state(world)
    assert found.health == "healthy"
    assert printed(found).rstrip().endswith(", which recovers it")


def test_the_state_for_programs(world: World) -> None:
    world.deploy()
    run = fire(world, "FAILED")
    document = state(world).document()
    assert document["health"] == "failed"
    assert document["next"] == "2024-03-08T02:00:00Z"
    assert document["schedules"][0]["at"] == "02:00"
    assert document["schedules"][0]["enabled"] is True
    last = document["last"]
    assert (last["id"], last["kind"], last["state"]) == (run, "scheduled", "failed")
    assert (last["failed_step"], last["seconds"]) == ("trainer", 41 * 60)
    trainer = {"name": "trainer", "state": "failed", "seconds": 41 * 60, "waits_since": None}
    assert trainer in last["steps"]


def test_a_ranker_that_is_not_deployed_is_an_error(world: World) -> None:
    with pytest.raises(UserError, match=place_and_value("NAME", "(got short_video, no pipeline short-video in http")):
        state(world)


@pytest.mark.parametrize("name", ["Short Video", "short-video", "../x", ""])
def test_names_that_are_none(world: World, name: str) -> None:
    with world.api() as api, pytest.raises(UserError, match=place_and_value("NAME", f"(got {name!r})")):
        state_of(api, name, world.at)


def test_the_table_of_runs(world: World) -> None:
    world.deploy()
    world.at = world.at.replace(day=8, hour=2)
    failed = fire(world, "FAILED")
    world.backfill("2024-03-07")
    world.store.max_page_size = 1
    with world.api() as api:
        runs = recent_runs(api, "short_video", 10)
        assert [run.id for run in recent_runs(api, "short_video", 1)] == [runs[0].id]
    console = Console(file=io.StringIO(), width=200, highlight=False)
    print_runs(runs, "short_video", world.at, console)
    assert isinstance(console.file, io.StringIO)
    head, newest, oldest = console.file.getvalue().splitlines()
    assert head.split() == ["date", "run", "kind", "state", "started", "(UTC)", "took", "failed", "step"]
    assert newest.split()[:4] == ["2024-03-07", runs[0].id, "backfill", "succeeded"]
    assert oldest.split()[:4] == ["2024-03-07", failed, "scheduled", "failed"]
    assert oldest.split()[-4:] == ["41", "min", "00", "s", "trainer"][1:]
    assert run_document(runs[1], "short_video", world.at, "")["failed_step"] == "trainer"


def test_no_runs_yet(world: World) -> None:
    console = Console(file=io.StringIO())
    print_runs([], "short_video", world.at, console)
    assert isinstance(console.file, io.StringIO)
    assert mentions(console.file.getvalue(), "short_video ... no runs")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (7260, "2 h 01 min"), (90000, "1 d 1 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
