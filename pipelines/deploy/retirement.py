"""The end of a ranker on the server: nothing is started any more; what it has left stays."""

from pipelines.deploy.api import Api
from pipelines.deploy.deployment import own_schedules, remove, schedule_text
from pipelines.deploy.release import Say
from pipelines.deploy.state import deployed


def retire(api: Api, ranker: str, is_meant: bool, say: Say) -> bool:
    """Deletes a ranker's recurring runs, and returns whether none is left.

    Args:
        api: the server.
        ranker: its name.
        is_meant: False: only says what it would do.
        say: prints a line.

    Raises:
        UserError: it is not on the server, or somebody else's schedule runs it.
    """
    pipeline = deployed(api, ranker)
    schedules = own_schedules(api, ranker, pipeline.id)
    are_gone = True
    for schedule in schedules:
        if is_meant:
            are_gone = remove(api, schedule, say) and are_gone
        else:
            state = "enabled" if schedule.is_enabled else "disabled"
            say(f"would delete {schedule.name} ({schedule_text(schedule)}, {state})")
    if not schedules:
        say(f"{ranker} has no schedule: nothing to delete")
    for run in api.unfinished_runs(pipeline.id):
        say(f"goes on    run {run.id} ({run.state})")
    number = api.versions(pipeline.id)
    say(
        f"stays      {number} version{'s' if number > 1 else ''} of the pipeline, all runs and their artifacts, and "
        "every pushed model: servers go on with what they serve"
    )
    if schedules and not is_meant:
        say("nothing was changed: give --yes to do it")
    return are_gone
