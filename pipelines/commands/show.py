"""The command `sangam show`."""

import typer

from sangam.pipelines.commands.options import JsonOption, RunArgument
from sangam.pipelines.console import print_json, terminal

EPILOG = "Example: sangam show runs/runs/latest"


def show(run: RunArgument, as_json: JsonOption = False) -> None:
    """Prints one run: whether its model was pushed and why, metrics and bounds, rows, training, steps, paths."""
    from sangam.components.record.store import find_run
    from sangam.pipelines.history.show import print_shown, read_shown
    from sangam.pipelines.times import utc_now

    shown, now = read_shown(find_run(run)), utc_now()
    if as_json:
        print_json(shown.document(now))
    else:
        print_shown(shown, now, terminal())
    raise typer.Exit
