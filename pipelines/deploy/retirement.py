"""The retirement of a ranker on the server: no new runs; its versions, runs and artifacts stay."""

from sangam.pipelines.deploy.api import Api
from sangam.pipelines.deploy.deployment import own_schedules, remove, schedule_text
from sangam.pipelines.deploy.release import Say
from sangam.pipelines.deploy.state import deployed


def retire(api: Api, ranker: str, is_confirmed: bool, say: Say) -> bool:
    """Deletes a ranker's recurring runs, or only prints what it would do; returns whether none is left.

    Raises:
        UserError: the ranker is not on the server, or a schedule that Sangam did not create runs it.
    """
    pipeline = deployed(api, ranker)
    schedules = own_schedules(api, ranker, pipeline.id)
    are_gone = True
    for schedule in schedules:
        if is_confirmed:
            are_gone = remove(api, schedule, say) and are_gone
        else:
            state = "enabled" if schedule.is_enabled else "disabled"
            say(f"would delete {schedule.name} ({schedule_text(schedule)}, {state})")
    if not schedules:
        say(f"{ranker} has no schedule: nothing to delete")
    for run in api.unfinished_runs(pipeline.id):
        say(f"continues  run {run.id} ({run.state})")
    number = api.versions(pipeline.id)
    say(
        f"stays      {number} version{'s' if number > 1 else ''} of the pipeline, all runs and their artifacts, and "
        "every pushed model: servers continue to serve it"
    )
    if schedules and not is_confirmed:
        say("nothing was changed: give --yes to do it")
    return are_gone
