"""The command `sangam diff`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption, RunArgument
from sangam.pipelines.console import print_json, terminal

EPILOG = "Example: sangam diff runs/runs/20240306 runs/runs/latest"


def diff(
    old: RunArgument,
    new: Annotated[Path, typer.Argument(metavar="RUN", help="The run to compare with it, likewise.")],
    as_json: JsonOption = False,
) -> None:
    """Prints what differs between two runs: spec, days, code, metrics, rows, tables, and seconds by step."""
    from sangam.components.record.store import find_run
    from sangam.pipelines.history.difference import document, print_changes

    first, second = find_run(old), find_run(new)
    if as_json:
        print_json(document(first, second))
    else:
        print_changes(first, second, terminal())
