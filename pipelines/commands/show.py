"""The command `sangam show`."""

import typer

from pipelines.commands.options import JsonOption, RunArgument
from pipelines.console import print_json, terminal

EPILOG = "Example: sangam show runs/runs/latest"


def show(run: RunArgument, as_json: JsonOption = False) -> None:
    """Prints one run: whether its model was pushed and why, metrics and bounds, rows, training, steps, paths."""
    from components.record.store import find_run
    from pipelines.history.show import print_shown, read_shown
    from pipelines.times import utc_now

    shown, now = read_shown(find_run(run)), utc_now()
    if as_json:
        print_json(shown.document(now))
    else:
        print_shown(shown, now, terminal())
    raise typer.Exit
