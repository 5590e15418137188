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
    for line in reason.lines(found):
        say(line)
