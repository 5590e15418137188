"""The command `sangam tune`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

EPILOG = (
    "Example: sangam tune pipelines/specs/census_income.yaml --data census --root runs --trials 30\n\n"
    "Exit codes: 0 the search has ended; 1 all of its trials, or the steps before them, failed; 2 the command was "
    "given something wrong; 4 another search or run is using the folder; 130 or 143 the search was stopped."
)


def tune(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file, with a section `tune`.")],
    data: Annotated[Path, typer.Option(help="Folder of the logs; the spec's file patterns are relative to it.")],
    root: Annotated[Path, typer.Option(help="Folder for everything the search leaves, and runs with it.")],
    date: Annotated[str | None, typer.Option(metavar="YYYY-MM-DD", help="As in `run`; only for logs by day.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Left out: tune.trials of the spec.")] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Trials at a time, each with all of cluster.ranks; their order is then chance.")
    ] = 1,
) -> None:
    """Searches the ranges that a spec declares in `tune` for the best model of the validation split.

    The logs are ingested, checked and transformed once; every trial is a training from nothing, without an export. The
    evaluation split is never looked at. The same command goes on where an earlier one was stopped or killed, and a
    larger --trials adds to a search that has ended; another spec is another search. The best spec, a table and a plot
    of all trials are in ROOT/tune/NAME.
    """
    from pipelines.tune.request import check_tune

    request = check_tune(spec, date, data, root, trials=trials, jobs=jobs)
    # Imported late: Optuna and the plot take a second, a mistake should be told in less.
    from pipelines.tune.run import run_tune

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    raise typer.Exit(run_tune(request, console))
