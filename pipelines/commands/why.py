"""The command `sangam why`."""

from sangam.pipelines.commands.options import JsonOption, RunArgument
from sangam.pipelines.console import print_json, say

EPILOG = "Example: sangam why runs/runs/latest"


def why(run: RunArgument, as_json: JsonOption = False) -> None:
    """Prints why a run failed or its model was refused: the cause, the end of the log, and what to try."""
    from sangam.components.record.store import find_run
    from sangam.pipelines.history.show import reason_of

    found = find_run(run)
    reason = reason_of(found)
    if as_json:
        print_json(reason.document(found))
        return
    say(f"{found.id} {reason.outcome.short or reason.outcome.sentence}")
    for cause in reason.outcome.causes:
        say(f"  {cause}")
    if reason.tail:
        say(f"the end of {reason.log}:\n{reason.tail}")
    elif reason.log:
        say(f"log: {reason.log}")
    if reason.exit_code is not None:
        say(f"exit code: {reason.exit_code}")
    for advice in reason.outcome.advice:
        say(f"try: {advice}")
