"""One version of a ranker's pipeline, run every day by exactly one recurring run."""

import datetime

from sangam.pipelines.deploy import names
from sangam.pipelines.deploy.api import Api, Launch
from sangam.pipelines.deploy.errors import ApiError
from sangam.pipelines.deploy.records import Schedule
from sangam.pipelines.deploy.release import Release, Say, publish
from sangam.pipelines.times import Clock, Moment, cron_at, date_of, next_due, time_of
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs

_BEFORE, _AFTER = datetime.timedelta(seconds=120), datetime.timedelta(seconds=60)
"""No schedule is replaced within this time before and after it starts a run: a new schedule that was created before
that moment and enabled after it would start the same run again (`getNextScheduledEpoch` counts from the creation,
backend/src/crd/controller/scheduledworkflow/util/scheduled_workflow.go of kubeflow/pipelines)."""


def deploy(api: Api, release: Release, at: str, clock: Clock, say: Say) -> bool:
    """Makes the server run a release once a day, and no other version of the ranker; returns whether anything changed.

    The new recurring run is created disabled, the old one is disabled, the new one is enabled, the old one is deleted:
    two are never enabled at once. The next call completes an interrupted one.

    Raises:
        UserError: a schedule that Sangam did not create runs the pipeline; or the server fails.
    """
    launch = publish(api, release, say)
    cron = cron_at(at)
    name = _name(release, launch, cron)
    own = own_schedules(api, release.spec.name, launch.pipeline_id)
    enabled = [schedule for schedule in own if schedule.is_enabled]
    is_changed = len(enabled) != 1 or not _is_current(enabled[0], name, launch)
    if is_changed:
        _replace(api, name, launch, cron, release, own, clock, say)
        say(f"schedule   {name} daily at {at} UTC, {'replaces the old one' if enabled else 'created'}")
    else:
        say(f"schedule   {name} daily at {at} UTC, unchanged")
    _keep_one(api, name, release.spec.name, launch.pipeline_id, say)
    due = next_due(at, clock.now())
    date = f", for {date_of(due)}" if isinstance(release.spec.logs, DayLogs) else ""
    say(f"next run   {due:%Y-%m-%d %H:%M} UTC{date}")
    return is_changed


def preview(api: Api, release: Release, at: str, say: Say) -> None:
    """Prints what `deploy` would change, and changes nothing."""
    pipeline = api.find_pipeline(names.pipeline_name(release.spec.name))
    version = api.find_version(pipeline.id, release.version_name) if pipeline else None
    own = own_schedules(api, release.spec.name, pipeline.id) if pipeline else []
    if pipeline is None:
        say(f"would create pipeline {names.pipeline_name(release.spec.name)}")
    if version is None:
        say(f"would upload version {release.version_name}")
    experiment_id = api.find_experiment(release.experiment)
    if experiment_id is None:
        say(f"would create experiment {release.experiment}")
    launch = None
    if pipeline and version and experiment_id:
        launch = Launch(experiment_id, pipeline.id, version.id, release.parameters, release.service_account)
    is_deployed = False
    for schedule in own:
        if launch and schedule.is_enabled and _is_current(schedule, _name(release, launch, cron_at(at)), launch):
            is_deployed = True
        else:
            say(f"would delete schedule {schedule.name} ({schedule_text(schedule)})")
    say("nothing to do" if is_deployed and len(own) == 1 else f"would run it daily at {at} UTC")


def own_schedules(api: Api, ranker: str, pipeline_id: str) -> list[Schedule]:
    """Returns the recurring runs that `deploy` has created for a ranker.

    Raises:
        UserError: one that Sangam did not create is enabled too: there would be two runs a day.
    """
    prefix = names.schedule_prefix(ranker)
    schedules = api.schedules(pipeline_id)
    for schedule in schedules:
        if schedule.is_enabled and not schedule.name.startswith(prefix):
            raise UserError(
                f"NAME: recurring run {schedule.name!r} ({schedule.id}) also runs the pipeline, and `sangam deploy` "
                "did not create it: disable or delete it in Kubeflow, then give the command again"
            )
    return [schedule for schedule in schedules if schedule.name.startswith(prefix)]


def remove(api: Api, schedule: Schedule, say: Say) -> bool:
    """Disables a recurring run, deletes it unless one of its runs is in progress, and returns whether it was deleted.

    Its deletion would end that run, because the schedule owns the workflow (kubeflow/pipelines issue 12573).
    """
    if schedule.is_enabled:
        api.disable(schedule.id)
    unfinished = [run for run in api.unfinished_runs(schedule.pipeline_id) if run.schedule_id == schedule.id]
    if unfinished:
        say(f"kept       {schedule.name}, disabled: run {unfinished[0].id} is in progress; the next call deletes it")
        return False
    api.delete_schedule(schedule.id)
    say(f"deleted    {schedule.name} ({schedule_text(schedule)})")
    return True


def schedule_text(schedule: Schedule) -> str:
    """Returns the start times of a recurring run, in words."""
    at = time_of(schedule.cron)
    return f"daily at {at} UTC" if at else f"cron {schedule.cron!r}"


def _keep_one(api: Api, name: str, ranker: str, pipeline_id: str, say: Say) -> None:
    """Deletes all schedules except the one of a name.

    Two clients that deploy at once may each have enabled one: both keep the older schedule.

    Raises:
        UserError: the older one belongs to the other client, and differs.
    """
    own = own_schedules(api, ranker, pipeline_id)
    enabled = [schedule for schedule in own if schedule.is_enabled]
    kept = min(enabled, key=lambda schedule: (str(schedule.created_at), schedule.id), default=None)
    for schedule in own:
        if schedule != kept:
            remove(api, schedule, say)
    if kept is None or kept.name != name:
        enabled_name = kept.name if kept else "none"
        raise UserError(
            f"NAME: another client deployed {ranker} at the same moment (got {name}, enabled is {enabled_name}); agree "
            "on one, then give the command again"
        )


def _is_current(schedule: Schedule, name: str, launch: Launch) -> bool:
    return schedule.name == name and _has_account(schedule, launch)


def _has_account(schedule: Schedule, launch: Launch) -> bool:
    return launch.service_account in ("", schedule.service_account)


def _name(release: Release, launch: Launch, cron: str) -> str:
    meaning = {
        "version": release.version_name,
        "version_id": launch.version_id,
        "experiment_id": launch.experiment_id,
        "parameters": launch.parameters,
        "service_account": launch.service_account,
        "cron": cron,
    }
    return names.schedule_name(release.spec.name, meaning)


def _replace(
    api: Api, name: str, launch: Launch, cron: str, release: Release, own: list[Schedule], clock: Clock, say: Say
) -> None:
    """Replaces the enabled schedules by a new one."""
    enabled = [schedule for schedule in own if schedule.is_enabled]
    known = frozenset(schedule.id for schedule in own)
    while True:
        _wait_until_quiet(enabled, clock, say)
        started = clock.now()
        made = api.make_disabled_schedule(name, launch, cron, names.schedule_description(release.version_name), known)
        _check_account(api, made, launch)
        if _is_quiet(enabled, started, clock.now()):
            break
        # The old schedule may have started a run during a slow answer: the new one would repeat that run.
        api.delete_schedule(made.id)
    for schedule in enabled:
        api.disable(schedule.id)
    try:
        api.enable(made.id)
    except ApiError as error:
        raise ApiError(
            f"{error}; NO schedule of {release.spec.name} is enabled now: give the same command again"
        ) from None


def _check_account(api: Api, made: Schedule, launch: Launch) -> None:
    """Deletes a new schedule whose runs would not have the requested service account.

    Kubeflow Pipelines 2.5 to 2.16 use the default account for scheduled runs and ignore the request's
    (kubeflow/pipelines issue 13311).

    Raises:
        UserError: the accounts differ.
    """
    if _has_account(made, launch):
        return
    api.delete_schedule(made.id)
    asked = launch.service_account
    raise UserError(
        f"--service-account: Kubeflow Pipelines {api.server_version()} would give scheduled runs another account (got "
        f"{made.service_account or 'none'}, not {asked}), so no schedule has changed; releases 2.5 to 2.16 ignore "
        "the account of a recurring run and take the default of ml-pipeline. Upgrade to 2.17, or change that default "
        f"with `kubectl set env -n kubeflow deploy/ml-pipeline DEFAULTPIPELINERUNNERSERVICEACCOUNT={asked}`, then give "
        "the command again"
    )


def _is_quiet(enabled: list[Schedule], begin: Moment, end: Moment) -> bool:
    times = [time for time in (time_of(schedule.cron) for schedule in enabled) if time]
    return all(next_due(time, begin - _AFTER) > end + _BEFORE for time in times)


def _wait_until_quiet(enabled: list[Schedule], clock: Clock, say: Say) -> None:
    if not _is_quiet(enabled, clock.now(), clock.now()):
        say(f"waiting    until {_AFTER.seconds} s after today's run has started")
    while not _is_quiet(enabled, clock.now(), clock.now()):
        clock.sleep(5.0)
