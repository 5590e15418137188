"""One version, one schedule: made, left as it is, replaced, healed after a crash, and ended."""

import pytest

from sangam.pipelines.deploy import api as api_module
from sangam.pipelines.deploy import names
from sangam.pipelines.deploy.api import Launch
from sangam.pipelines.deploy.deployment import preview
from sangam.pipelines.deploy.errors import ApiError
from sangam.pipelines.deploy.retirement import retire
from sangam.schemas.errors import UserError
from tests.errors import mentions, place_and_value
from tests.fakes.kfp_api import Fault
from tests.pipelines.deploy.sample_server import IMAGE, OTHER_IMAGE, TRAINER_IMAGE, Crash, World


def test_a_first_call_makes_pipeline_version_and_one_daily_schedule(world: World) -> None:
    assert world.deploy(at="02:30")
    (schedule,) = world.store.recurring.values()
    assert schedule["status"] == "ENABLED"
    assert schedule["trigger"] == {"cron_schedule": {"cron": "0 30 2 * * *"}}
    assert (schedule["max_concurrency"], schedule["no_catchup"]) == ("1", True)
    assert schedule["runtime_config"]["parameters"] == {"data_root": "/sangam/data", "pipeline_root": "/sangam/root"}
    (version,) = world.store.versions.values()
    assert version["display_name"] == world.release().version_name
    assert IMAGE in version["description"]
    lines = world.lines()
    assert "pipeline   short-video created" in lines
    assert "next run   2024-03-08 02:30 UTC, for 2024-03-07" in lines


def test_what_the_database_has_room_for_alone_is_sent(world: World) -> None:
    """A schedule's description is short; spec and both images are in that of the version, which `status` shows."""
    world.deploy()
    (schedule,) = world.store.recurring.values()
    (version,) = world.store.versions.values()
    assert len(schedule["description"]) <= 255
    assert version["display_name"] in schedule["description"]
    assert f"image {IMAGE}, trainer {TRAINER_IMAGE}" in version["description"]


def test_a_text_without_room_is_refused_before_the_request(world: World) -> None:
    launch = Launch("experiment", "pipeline", "version", {})
    with (
        world.api() as api,
        pytest.raises(UserError, match=place_and_value("--host", "description ... 256 characters")),
    ):
        api.make_disabled_schedule("name", launch, "0 0 2 * * *", "x" * 256, frozenset())
    assert world.changes == 0


def test_a_text_that_the_server_has_no_room_for_is_not_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "schedule_description", lambda version: "x" * 256)
    monkeypatch.setattr(api_module, "check_room", lambda kind, **texts: None)
    with pytest.raises(ApiError, match=place_and_value("--host", "Data too long for column 'Description'")):
        world.deploy()
    assert len(world.store.orphans) == 1
    assert world.slept == []
    world.store.orphans.clear()


@pytest.mark.parametrize(("release", "account"), [("2.4.1", "runner"), ("2.17.0", "runner")])
def test_scheduled_runs_have_the_account_asked_for(world: World, release: str, account: str) -> None:
    world.store.tag_name = release
    world.deploy(service_account=account)
    (schedule,) = world.store.recurring.values()
    assert (schedule["service_account"], schedule["status"]) == (account, "ENABLED")
    assert not world.deploy(service_account=account)


def test_an_account_that_the_server_ignores_is_an_error_and_the_old_schedule_stays(world: World) -> None:
    world.deploy()
    (before,) = world.store.recurring
    expected = place_and_value("--service-account", "2.16.1 ... (got pipeline-runner, not runner)")
    with pytest.raises(UserError, match=expected) as refused:
        world.deploy(service_account="runner")
    assert "DEFAULTPIPELINERUNNERSERVICEACCOUNT=runner" in str(refused.value)
    assert [schedule["recurring_run_id"] for schedule in world.enabled()] == [before]
    assert list(world.store.recurring) == [before]


def test_a_schedule_with_another_account_is_replaced_once_the_default_is_right(world: World) -> None:
    """The server ignored the account that the schedule's name says."""
    world.store.tag_name = "2.17.0"
    world.deploy(service_account="runner")
    (before,) = world.store.recurring.values()
    before["service_account"] = "pipeline-runner"
    world.store.tag_name, world.store.default_account = "2.16.1", "runner"
    assert world.deploy(service_account="runner")
    (after,) = world.enabled()
    assert (after["display_name"], after["service_account"]) == (before["display_name"], "runner")


def test_a_second_call_changes_nothing_and_says_so(world: World) -> None:
    world.deploy()
    before, made = dict(world.store.recurring), world.changes
    world.lines()
    assert not world.deploy()
    assert world.store.recurring == before
    assert world.changes == made
    assert world.server.count("POST .*upload_version") == 1
    assert world.lines().splitlines()[:2] == [
        "pipeline   short-video unchanged",
        f"version    {world.release().version_name} unchanged",
    ]


@pytest.mark.parametrize("change", ["image", "spec", "time"])
def test_a_change_takes_the_place_of_the_schedule_before(world: World, change: str) -> None:
    world.deploy()
    (before,) = world.store.recurring
    if change == "spec":
        world.change_spec()
    assert world.deploy(at="03:00" if change == "time" else "02:00", image=OTHER_IMAGE if change == "image" else IMAGE)
    (after,) = world.store.recurring
    assert after != before
    assert world.enabled()[0]["recurring_run_id"] == after
    assert len(world.store.versions) == (1 if change == "time" else 2)


def test_two_schedules_are_never_enabled_at_once(world: World) -> None:
    world.deploy()
    seen: list[int] = []
    world.server.after = lambda request: seen.append(len(world.enabled()))
    world.deploy(image=OTHER_IMAGE)
    assert max(seen) == 1
    # Between the end of the old one and the start of the new one is a single request.
    assert seen.count(0) == 1


@pytest.mark.parametrize("number", range(1, 8))
def test_a_call_that_is_cut_off_at_any_point_is_completed_by_the_next(world: World, number: int) -> None:
    world.deploy()
    world.changes, world.crash_before = 0, number
    try:
        world.deploy(image=OTHER_IMAGE, at="03:00")
    except Crash:
        assert len(world.enabled()) <= 1
    else:
        assert number > 5  # upload, create, disable, enable, delete
    world.crash_before = 0
    world.deploy(image=OTHER_IMAGE, at="03:00")
    (schedule,) = world.store.recurring.values()
    assert schedule["status"] == "ENABLED"
    assert schedule["trigger"]["cron_schedule"]["cron"] == "0 0 3 * * *"
    assert world.server.count("POST .*upload_version") == 2


def test_a_schedule_about_to_start_a_run_is_replaced_after_it_has(world: World) -> None:
    world.deploy(at="12:01")
    (old,) = world.store.recurring
    due = world.at.replace(minute=1)

    def fire() -> None:
        if world.at >= due and not world.store.runs:
            world.store.set_state(world.store.fire(old)["run_id"], "SUCCEEDED")

    world.whenever = fire
    world.deploy(at="12:01", image=OTHER_IMAGE)
    assert "waiting    until 60 s after" in world.lines()
    assert len(world.store.runs) == 1
    (new,) = world.store.recurring.values()
    assert new["created_at"] > "2024-03-07T12:01"
    assert (world.at - due).total_seconds() >= 60


def test_a_server_slow_enough_to_miss_the_moment_gets_a_fresh_schedule(world: World) -> None:
    """One that was made before the moment and enabled after it would start the old one's run again."""
    world.deploy(at="12:10")
    times: list[str] = []

    def after(request: str) -> None:
        if request == "POST /apis/v2beta1/recurringruns":
            times.append(world.store.stamp())
            if len(times) == 1:
                world.at = world.at.replace(minute=11)

    world.server.after = after
    world.deploy(at="12:10", image=OTHER_IMAGE)
    (schedule,) = world.store.recurring.values()
    assert len(times) == 2
    assert schedule["created_at"] > "2024-03-07T12:11"


def test_a_run_that_is_going_is_not_ended_with_its_schedule(world: World) -> None:
    world.deploy()
    (old,) = world.store.recurring
    run = world.store.fire(old)
    world.store.set_state(run["run_id"], "RUNNING")
    world.deploy(image=OTHER_IMAGE)
    assert world.store.recurring[old]["status"] == "DISABLED"
    assert mentions(world.lines(), f"disabled ... {run['run_id']}")
    world.store.set_state(run["run_id"], "SUCCEEDED")
    world.deploy(image=OTHER_IMAGE)
    assert old not in world.store.recurring


def test_going_back_to_a_version_whose_schedule_is_left_makes_a_new_schedule(world: World) -> None:
    """The one that was left is as old as before: enabled, it would start the run of a moment that has passed."""
    world.deploy()
    (old,) = world.store.recurring
    world.store.set_state(world.store.fire(old)["run_id"], "RUNNING")
    world.deploy(image=OTHER_IMAGE)
    world.deploy()
    assert [record["recurring_run_id"] for record in world.enabled()] != [old]
    assert world.store.recurring[old]["status"] == "DISABLED"
    assert len(world.store.versions) == 2


def test_somebody_elses_enabled_schedule_is_an_error(world: World) -> None:
    world.deploy()
    (own,) = world.store.recurring.values()
    body = {key: own[key] for key in ("experiment_id", "pipeline_version_reference", "max_concurrency", "trigger")}
    world.store.create_recurring({**body, "display_name": "by hand", "mode": "ENABLE"})
    with pytest.raises(UserError, match=place_and_value("...", "'by hand'")):
        world.deploy()


def test_somebody_elses_pipeline_is_an_error(world: World) -> None:
    world.store.create_pipeline({"display_name": "short-video", "description": "mine"})
    with pytest.raises(UserError, match=place_and_value("...", "'short-video' ... 'mine'")):
        world.deploy()


def test_a_schedule_that_cannot_be_enabled_is_said_plainly(world: World) -> None:
    world.deploy()
    world.server.faults = [Fault("POST", ":enable$", times=99)]
    with pytest.raises(ApiError, match=r"500: .*NO schedule of short_video"):
        world.deploy(image=OTHER_IMAGE)
    world.server.faults.clear()
    world.deploy(image=OTHER_IMAGE)
    assert len(world.enabled()) == len(world.store.recurring) == 1


def rival(world: World, name: str | None, created_at: str) -> None:
    """Has somebody else enable a schedule at the moment when this client has."""

    def after(request: str) -> None:
        if request.endswith(":enable"):
            world.server.after = lambda request: None
            (own,) = world.enabled()
            fields = ("display_name", "experiment_id", "pipeline_version_reference", "max_concurrency", "trigger")
            body = {**{field: own[field] for field in fields}, "mode": "ENABLE"}
            made = world.store.create_recurring({**body, "display_name": name or body["display_name"]})
            made["created_at"] = created_at

    world.server.after = after


@pytest.mark.parametrize("created_at", ["2024-03-07T11:59:59Z", "2024-03-07T12:00:01Z"])
def test_of_two_clients_that_deploy_the_same_at_once_one_schedule_is_left(world: World, created_at: str) -> None:
    rival(world, None, created_at)
    world.deploy()
    (schedule,) = world.store.recurring.values()
    assert schedule["status"] == "ENABLED"
    assert schedule["created_at"] == min(created_at, "2024-03-07T12:00:00Z")


def test_of_two_clients_that_deploy_something_else_at_once_one_is_told(world: World) -> None:
    rival(world, "short-video-daily-other", "2024-03-07T11:59:59Z")
    with pytest.raises(UserError, match=r"short_video.*daily-other"):
        world.deploy()
    assert len(world.store.recurring) == len(world.enabled()) == 1


def test_a_preview_says_what_would_change_and_changes_nothing(world: World) -> None:
    with world.api() as api:
        preview(api, world.release(), "02:00", world.say)
        assert world.changes == 0
        assert world.lines().splitlines() == [
            "would create pipeline short-video",
            f"would upload version {world.release().version_name}",
            "would create experiment short-video",
            "would run it daily at 02:00 UTC",
        ]
        world.deploy()
        world.lines()
        preview(api, world.release(), "02:00", world.say)
        assert world.lines() == "nothing to do"
        preview(api, world.release(OTHER_IMAGE), "02:00", world.say)
        assert "would delete schedule short-video-daily-" in world.lines()


def test_things_beyond_the_first_page_are_found(world: World) -> None:
    world.store.max_page_size = 2
    for number in range(5):
        world.store.create_experiment({"display_name": f"other {number}"})
    world.deploy()
    for image in (OTHER_IMAGE, IMAGE):
        old = world.enabled()[0]["recurring_run_id"]
        world.store.set_state(world.store.fire(old)["run_id"], "RUNNING")
        world.deploy(image=image)
    assert len(world.store.recurring) == 3
    assert not world.deploy()
    assert len(world.enabled()) == 1


def test_retirement_without_a_yes_only_says_what_it_would_do(world: World) -> None:
    world.deploy()
    world.lines()
    with world.api() as api:
        retire(api, "short_video", False, world.say)
    assert len(world.enabled()) == 1
    lines = world.lines()
    assert "would delete short-video-daily-" in lines
    assert "--yes" in lines


def test_retirement_ends_the_schedule_and_says_what_stays(world: World) -> None:
    world.deploy()
    (schedule,) = world.store.recurring
    world.store.set_state(world.store.fire(schedule)["run_id"], "RUNNING")
    world.lines()
    with world.api() as api:
        assert not retire(api, "short_video", True, world.say)
        lines = world.lines()
        assert "continues  run" in lines
        assert mentions(lines, "stays ... 1 version ... all runs")
        world.store.set_state(next(iter(world.store.runs)), "SUCCEEDED")
        assert retire(api, "short_video", True, world.say)
    assert not world.store.recurring
    assert len(world.store.versions) == len(world.store.runs) == 1


def test_what_is_not_deployed_cannot_be_retired(world: World) -> None:
    with world.api() as api, pytest.raises(UserError, match=place_and_value("NAME", "(got short_video, no pipeline")):
        retire(api, "short_video", True, world.say)
