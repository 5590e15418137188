"""The command `sangam tune`."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.options import DataOption, RootOption
from pipelines.console import terminal

EPILOG = (
    "Example: sangam tune pipelines/specs/census_income.yaml --data census --root runs --trials 30\n\n"
    "Exit codes: 0 the search has finished; 1 all of its trials, or the steps before them, failed; 2 the spec or an "
    "option is wrong; 4 another search or run is using the folder; 130 or 143 the search was stopped."
)


def tune(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file, with a section `tune`.")],
    data: DataOption,
    root: RootOption,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Last day to evaluate on. Only for logs by day.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Number of trials. [default: tune.trials of the spec]")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(min=1, help="Trials at a time, each with all of cluster.ranks. Above 1 their order is random."),
    ] = 1,
) -> None:
    """Searches the ranges in section `tune` of a spec for the model that does best on the validation split.

    The logs are ingested, validated and transformed once; every trial trains from nothing and exports nothing. The
    evaluation split is never used. After a stop the same command resumes the search, and a larger --trials extends a
    finished one; a changed spec starts a new one. The best spec, a table and a plot of all trials are in
    ROOT/tune/NAME.
    """
    from pipelines.tune.request import check_tune

    request = check_tune(spec, date, data, root, trials=trials, jobs=jobs)
    # Imported after the check: Optuna and Matplotlib take a second, and a mistake should be reported at once.
    from pipelines.tune.run import run_tune

    raise typer.Exit(run_tune(request, terminal()))
